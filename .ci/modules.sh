# Which modules of go.work are released, and which changes are not. Sourced, from the root of the repository.

# Each comes after those that it requires.
released=(. pacer/config pacer/grpcpacer pacer/awspacer pacer/riverpacer pacer/asynqpacer pacer/otelpacer pacer/serve pacer/cmd/headway)

# Tests, benchmarks and examples: nobody installs them.
unreleased=(examples/salesforce examples/zendesk pacer/bench pacer/faulttest pacer/page/browsertest pacer/recipes pacer/serve/clienttest transport/sdktest)

module=github.com/headway-go/headway

# path_of prints the module path of a folder, tag_of the tag of its release.
path_of() { if [ "$1" = . ]; then echo "$module"; else echo "$module/$1"; fi; }
tag_of() { if [ "$1" = . ]; then echo "$2"; else echo "$1/$2"; fi; }

# unreleased_changes prints what the changelog has above the last release.
unreleased_changes() { sed -n '/^## \[Unreleased\]/,/^## \[[0-9]/p' CHANGELOG.md; }

# Every module is in one of the lists.
if ! diff <(printf '%s\n' "${released[@]}" "${unreleased[@]}" | sort) \
	<(GOWORK=$PWD/go.work go list -m | sed -e "s#^$module\$#.#" -e "s#^$module/##" | sort) >&2; then
	echo ".ci/modules.sh does not list the modules of go.work: say of each whether it is released" >&2
	exit 1
fi
