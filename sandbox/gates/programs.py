"""What is known about programs that recipes run: what a reviewer must see, and what no recipe may do."""

from __future__ import annotations

import re
from typing import Final

FORBIDDEN: Final = frozenset({
    "sudo", "su", "doas", "pkexec", "runuser", "chroot", "nsenter", "unshare", "mount", "umount", "fdisk", "parted",
    "shutdown", "reboot", "halt", "poweroff", "crontab", "at", "batch", "systemctl", "systemd-run", "service",
    "launchctl", "useradd", "usermod", "userdel", "groupadd", "passwd", "chpasswd", "visudo", "iptables", "ip6tables",
    "nft", "ufw", "insmod", "modprobe", "rmmod", "kexec", "sysctl", "setcap", "chattr", "gdb", "strace", "ltrace",
    "history", "fc", "security", "keyctl", "secret-tool", "ssh-add", "ssh-agent", "ssh-keygen", "ssh-copy-id", "gpg",
    "gpg2", "xclip", "xsel", "pbcopy", "pbpaste", "xdotool", "osascript", "screencapture", "wall", "write", "nohup",
    "setsid", "disown", "alias", "enable", "coproc", "script", "expect", "mkfs", "wipefs", "shred", "debugfs",
    "ed", "ex", "vi", "vim", "nvim", "emacs", "nano", "less", "more", "man", "screen", "tmux",
})  # fmt: skip
"""They raise rights, change the machine, outlive the script, reach keys, change what other words mean, or run what
one types into them."""

NETWORK: Final = frozenset({
    "curl", "wget", "nc", "ncat", "netcat", "socat", "telnet", "ssh", "scp", "sftp", "rsync", "ftp", "tftp", "lftp",
    "aria2c", "http", "https", "xh", "dig", "nslookup", "host", "ping", "traceroute", "nmap", "gh", "glab", "aws",
    "gcloud", "gsutil", "az", "kubectl", "helm", "mail", "sendmail", "mutt", "ngrok", "cloudflared", "websocat",
    "twine", "rclone", "mosquitto_pub", "redis-cli", "psql", "mysql",
})  # fmt: skip
"""They speak to other machines: allowed only where the manifest grants a tool of that name."""

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "csh", "tcsh", "busybox"})
INTERPRETERS: Final = frozenset({
    "python", "python2", "python3", "perl", "ruby", "node", "nodejs", "deno", "bun", "php", "lua", "Rscript", "tclsh",
    "osascript", "pwsh", "powershell",
})  # fmt: skip
INLINE: Final = frozenset({"-c", "-e", "-E", "-r", "-p", "--eval", "--print", "eval"})
"""Options of interpreters that are followed by code."""

INSTALLERS: Final = frozenset({
    "pip", "pip3", "uv", "pipx", "poetry", "pdm", "conda", "mamba", "npm", "pnpm", "yarn", "cargo", "go", "gem",
    "bundle", "composer", "apt", "apt-get", "apk", "dnf", "yum", "brew", "dotnet", "mvn", "gradle", "cpan",
    "luarocks",
})  # fmt: skip
INSTALLING: Final = frozenset({
    "install", "i", "ci", "add", "get", "sync", "update", "upgrade", "require", "restore", "run", "tool", "x", "exec",
    "dlx",
})  # fmt: skip
RUNNERS: Final = frozenset({"npx", "uvx", "bunx", "pnpx"})
"""They fetch a package and run it at once."""
ELSEWHERE: Final = re.compile(
    r"(?i)^(?:git\+|https?:|ssh:|git@|ftp:)|^(?:-i|-f|--(?:extra-)?index-url|--find-links|--registry|--index|"
    r"--trusted-host|--git|--channel|--source)(?:=|$)"
)
"""Arguments that make an installer take its packages from an address of the draft's choice."""

GIT_NETWORK: Final = frozenset({"push", "send-email", "daemon", "credential", "instaweb"})
GIT_FETCH: Final = frozenset({"clone", "fetch", "pull", "submodule", "ls-remote"})
GIT_LOSES: Final = frozenset({"reset", "clean", "checkout", "restore", "stash", "rebase", "filter-branch", "gc"})
GIT_RUNS: Final = re.compile(
    r"\b(?:foreach|bisect run|filter-branch|difftool|mergetool)\b|--exec\b|rebase.* -x\b|ext::"
)
"""What makes git run a command that its arguments name."""
GIT_SETTING: Final = re.compile(
    r"(?i)core\.(?:hookspath|sshcommand|fsmonitor|editor|pager|askpass|gitproxy)|alias\.|credential\.|url\.|filter\."
    r"|diff\.external|gpg\.program|protocol\.|include\."
)

WRAPPERS: Final = {
    "command": "", "builtin": "", "exec": "a", "time": "", "nice": "n", "ionice": "cn", "stdbuf": "ioe", "env": "uC",
    "timeout": "ks", "xargs": "InPLdsaE", "flock": "wE", "chronic": "", "unbuffer": "", "caffeinate": "",
    "parallel": "jN", "watch": "n",
}  # fmt: skip
"""Programs that run what their arguments name, with the letters of options that take a value."""

VARIABLES: Final = frozenset({
    "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "BASH_ENV", "ENV",
    "PROMPT_COMMAND", "PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONHOME", "PERL5OPT", "PERL5LIB", "RUBYOPT",
    "NODE_OPTIONS", "JAVA_TOOL_OPTIONS", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EXTERNAL_DIFF", "GIT_PROXY_COMMAND",
    "GIT_ASKPASS",
    "GIT_CONFIG_GLOBAL", "SSH_ASKPASS", "SUDO_ASKPASS", "PS4", "SHELLOPTS", "BASHOPTS", "HISTFILE", "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_INDEX", "NPM_CONFIG_REGISTRY", "GOPROXY", "GOFLAGS", "RUSTC_WRAPPER",
})  # fmt: skip
"""Variables that make other programs load or run something."""

CREDENTIALS: Final = re.compile(
    r"""(?xi)
      (?:^|[/~\s"'=])\.(?:ssh|aws|gnupg|netrc|kube|azure|git-credentials|npmrc|pypirc|password-store|vault-token
        |boto|s3cfg|pgpass|my\.cnf|bash_history|zsh_history|python_history|docker/config|config/(?:gh|gcloud|op)\b)
    | \bid_(?:rsa|dsa|ecdsa|ed25519)\b | /etc/(?:shadow|passwd|sudoers|ssh)\b
    | /proc/[^/\s]{1,20}/(?:environ|mem|maps)
    | /var/run/docker\.sock | /run/secrets\b | Login\ Data | \bcookies\.sqlite\b | \bkey[34]\.db\b
    | \blogin\.keychain | \.claude\.json\b | \.claude/\.credentials | \.codex/auth\.json
    | 169\.254\.169\.254 | metadata\.google\.internal
    """
)
PERSISTENT: Final = re.compile(
    r"""(?xi)
      (?:^|/)\.(?:bashrc|bash_profile|bash_login|bash_logout|profile|zshrc|zprofile|zshenv|zlogin|vimrc|gitconfig
        |envrc|inputrc|pythonrc|git|githooks|husky|github|gitlab-ci\.yml|circleci|vscode|idea|claude|agents|codex|cursor
        |cursorrules|ssh|config/(?:autostart|systemd|fish)|local/bin|mcp\.json|pre-commit-config\.yaml)(?:$|/)
    | (?:^|/)(?:AGENTS|CLAUDE|GEMINI|SKILL)\.md$ | authorized_keys | (?:^|/)(?:sitecustomize|usercustomize)\.py$
    """
)
"""Files that are run or obeyed later, by a shell, an editor, a host of code, or an agent."""

INLINE_DANGER: Final = re.compile(
    r"""(?xi) (?:\b|-[rM])socket\b | \burl(?:open|lib)\b | \brequests?\b\s*[.(] | \bhttps?\b\s*[.(:] | \bexec\s*\(
    | \beval\s*[({]
    | \bb64decode\b | \bfromCharCode\b | \bunpack\b | \bos\.(?:system|popen|exec|environ|remove|unlink)
    | \bsubprocess\b | \bchild_process\b | \bsystem\s*\( | \bpopen\b | \b__import__\b | \brmtree\b | `"""
)
"""Words in code on a command line that make it more than a calculation."""
MODULES: Final = frozenset({
    "http.server", "smtplib", "ftplib", "telnetlib", "webbrowser", "xmlrpc.server", "socketserver", "pdb", "code",
    "idlelib", "asyncio", "pydoc",
})  # fmt: skip
"""Modules of Python that serve, connect, or run what one types into them."""
QUOTING: Final = frozenset({
    "echo", "printf", "grep", "egrep", "fgrep", "rg", "ag", "test", "[", "[[", ":", "which", "type", "pgrep", "case",
    "expr", "return", "exit", "local", "export", "declare", "readonly", "typeset", "command", "true", "false",
})  # fmt: skip
"""Programs and words of the shell for which an argument is a text, never something to run."""
RUNS_MORE: Final = re.compile(
    r"(?i)^--(?:checkpoint-action|to-command|use-compress-program|rsh|upload-pack|receive-pack|exec-path|unsafe-perm"
    r"|privileged|pid=host|net=host|network=host|cap-add|post-file|data-binary|upload-file|unzip-command|eval|init-command)"
    r"|^-TT$|^SHELL=|^ext::"
)
"""Options by which harmless programs run others, or hand out what they should keep."""
