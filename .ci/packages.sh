# What the install scripts share. Each defines by_hand, which says how to go on without a package manager.

have() { command -v "$1" >/dev/null 2>&1; }

# announce says what is about to be installed, and how large it is.
announce() { echo "$(basename "$0"): installing $1 with the system's package manager"; }

# as_root runs a command as root; sudo must not ask for a password.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif have sudo; then
		sudo -n "$@"
	else
		by_hand "installing a package takes root, and there is no sudo"
	fi
}

# from_apt installs packages. One unreachable source of several need not matter: the installation decides.
from_apt() {
	as_root env DEBIAN_FRONTEND=noninteractive apt-get update ||
		echo "$(basename "$0"): apt-get update failed; trying with the lists at hand" >&2
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
