CREATE TABLE customers(id TEXT PRIMARY KEY, first TEXT, last TEXT, email TEXT, phone TEXT, street TEXT, city TEXT,
                       zip TEXT, tier TEXT);
CREATE TABLE payment_methods(id TEXT PRIMARY KEY, customer TEXT, kind TEXT, label TEXT);
CREATE TABLE products(id TEXT PRIMARY KEY, name TEXT, category TEXT, variant TEXT, cents INTEGER, stock INTEGER);
CREATE TABLE orders(id TEXT PRIMARY KEY, customer TEXT, status TEXT, placed TEXT, street TEXT, city TEXT, zip TEXT,
                    payment_method TEXT);
CREATE TABLE items(id TEXT PRIMARY KEY, order_id TEXT, product TEXT, quantity INTEGER, cents INTEGER, status TEXT);
CREATE TABLE shipments(id TEXT PRIMARY KEY, order_id TEXT, carrier TEXT, status TEXT, due TEXT, place TEXT);
CREATE TABLE notes(customer TEXT, text TEXT);
CREATE INDEX orders_by_customer ON orders(customer);
CREATE INDEX items_by_order ON items(order_id);
CREATE INDEX shipments_by_order ON shipments(order_id);
CREATE INDEX methods_by_customer ON payment_methods(customer);
CREATE INDEX customers_by_email ON customers(email);
