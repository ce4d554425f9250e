#!/usr/bin/env bash
# Runs Podstream's tests in the guest, on its containerd 2, systemd and cgroup v2. Usage:
#   hack/vm/test.sh                        all of them
#   hack/vm/test.sh short                  the part that differs most from a machine with cgroup v1, in a few minutes
#   hack/vm/test.sh lacks                  what User-Mode Linux lacks, for KERNEL=qemu
#   hack/vm/test.sh PACKAGE[:REGEXP]...    these packages, for example 'test/world:Resources'
# The test programs are built outside. Tests that this guest can't run are in hack/vm/lacks, each with the reason; any
# other test that is skipped is a failure. The outputs stay in .run/vm/GUEST.log.
set -euo pipefail
cd "$(dirname "$0")/../.."
kernel=${KERNEL:-uml}
guest=${GUEST:-$kernel}
dir=$PWD/.run/vm
share=$dir/$guest.share
logs=$dir/$guest.log
export GUEST=$guest
stage() { printf 'vm: %s (%d s so far)\n' "$1" "$SECONDS"; }

# The packages that look at the machine: its cgroups, mounts, disks and processes.
machine=(
	internal/doctor
	internal/openfile
	internal/tunables
	internal/execsvc/machine/{nodeinfo,nodefs,kmsg,placement}
	internal/execsvc/reclaim/{localstorage,eviction}
	internal/execsvc/serve/stats internal/execsvc/serve/stats/kernel
	internal/execsvc/setup/{cgroup,volume,userns,podsetup}
)
# What of test/world differs most with cgroup v2 and containerd 2. A pod takes 5 s of the guest's processor to start.
differs='TestResources/containerd-2/(nothing-is|cpu-request|memory-limit|limits-of|resources-of)|TestMemoryQoS/.*/containerd-2/.*burstable'
differs+='|TestImageGroups/containerd-2/.*out|TestPodResize|TestMountPropagation'
differs+='|TestIdentity/containerd-2/(users-of|volumes|supplementalGroupsPolicy-Strict$)|TestVolumes/containerd-2/(image|recursiveReadOnly-of)'

# lacking prints the tests of a package that a kernel can't run, as hack/vm/lacks names them.
lacking() { # KERNEL PACKAGE
	awk -v kernel="$1" -v package="$2" '!/^#/ && ($1 == kernel || $1 == "both") && $2 == package { print $3 }' hack/vm/lacks
}

# exactly prints the regular expression of a test in hack/vm/lacks.
exactly() {
	local test=${1//\*/.*}
	echo "^${test//\//\$/^}\$"
}

case ${1:-} in
'') rows=("${machine[@]}" internal/sources/file internal/execsvc/reclaim/diskusage internal/execsvc/setup/volume/subpath
	test/world test/lifecycle) minutes=30 ;;
short) rows=("${machine[@]:1}" "test/world:$differs") minutes=5 ;; # without internal/doctor, which reads recorded machines
lacks)
	[[ $kernel == qemu ]] || { echo "vm: what User-Mode Linux lacks runs with KERNEL=qemu" >&2; exit 1; }
	rows=(internal/execsvc/setup/cgroup internal/execsvc/serve/stats/kernel) minutes=30 # huge pages; pressure
	while read -r package; do
		regexps=()
		for test in $(lacking uml "$package"); do
			[[ " $(lacking qemu "$package" | paste -s -d ' ') " == *" $test "* ]] || regexps+=("$(exactly "$test")")
		done
		((${#regexps[@]} == 0)) || rows+=("$package:$(IFS='|' && echo "${regexps[*]}")")
	done < <(awk '$1 == "uml" { print $2 }' hack/vm/lacks | sort -u)
	;;
*) rows=("$@") minutes=30 ;;
esac
packages=("${rows[@]%%:*}")

# The image, if it is to be built, and the test programs use a processor each.
hack/vm/image.sh &
image=$!
trap 'wait' EXIT
stage "building the test programs"
rm -rf "$share" "$logs"
mkdir -p "$share"/{bin,tests,src/.tools} "$logs"
cp go.mod "$share/src/"
ln -s /usr/bin "$share/src/.tools/containerd-2"
export CGO_ENABLED=0 GOFLAGS="-trimpath -ldflags=-s ${GOFLAGS:-}"
go build -o "$share/bin/" ./cmd/podconfigd ./cmd/podexecd ./cmd/podctl ./internal/simruntime/simruntimed ./test/injectd ./test/sample \
	./test/world/guest
go test -c -o "$share/tests/" "${packages[@]/#/./}"
for package in "${packages[@]}"; do
	mkdir -p "$share/src/$package"
	[[ ! -d $package/testdata ]] || cp -r "$package/testdata" "$share/src/$package/"
done
# The rows of test/world look for the golden files of other packages.
mkdir -p "$share/src/internal/execsvc/pod/criconfig"
cp -r internal/execsvc/pod/criconfig/testdata "$share/src/internal/execsvc/pod/criconfig/"

stage "the test programs are built"
wait "$image"
trap 'hack/vm/guest.sh down; rm -rf "$share"' EXIT
# up boots the guest. The tests of swap and of huge pages need some.
up() {
	stage "booting the guest"
	hack/vm/guest.sh up "$share"
	hack/vm/guest.sh sh swapon LABEL=swap
	[[ $kernel == uml ]] || hack/vm/guest.sh sh sysctl -q vm.nr_hugepages=64
}
up

# skipping prints the -test.skip of a package: what it lacks, and the containerd that the guest hasn't. Names of fewer parts
# come first, since go test goes no further than the first name that the beginning of a test's name matches.
skipping() {
	local test all=("1 /^containerd-1.7\$" "2 //^containerd-1.7\$")
	for test in $(lacking "$kernel" "$1"); do
		all+=("$(tr -cd / <<<"$test" | wc -c) $(exactly "$test")")
	done
	printf '%s\n' "${all[@]}" | sort -n -s -k1,1 | cut -d ' ' -f 2- | paste -s -d '|'
}

# skipped prints the tests that a log reports as skipped, and the rows of test/world that the node can't run.
skipped() {
	awk '
		/^ *--- SKIP: / { print $3 }
		/^No node here has / { listed = 1; next }
		listed && /^\t/ { print $1; next }
		{ listed = 0 }
	' "$1"
}

# in_guest PACKAGE REGEXP SKIP runs a package's tests in its directory. Three tests at a time wait for their pods: with
# more of them on one processor, each one takes too long. In an emulated machine a pod takes a minute to start.
parallel=3 patience=3m
[[ $kernel == uml ]] || { parallel=1 patience=5m; }
in_guest() {
	timeout $((minutes * 60 + 60)) hack/vm/guest.sh sh "cd /podstream/src/$1 &&
		PODSTREAM_BIN_DIR=/podstream/bin PODSTREAM_REQUIRE_RUNTIME=1 PODSTREAM_PATIENCE=$patience TMPDIR=/var/tmp /podstream/tests/${1##*/}.test \
		-test.v -test.parallel=$parallel -test.timeout=${minutes}m -test.run='$2' -test.skip='$3'" </dev/null
}

panicked() { grep -q 'Kernel panic' "$dir/$guest/console.log"; }

failed=()
run() { # PACKAGE REGEXP
	local package=$1 log=$logs/${1//\//-}.log skip unexpected code=0
	skip=$(skipping "$package")
	stage "$package"
	in_guest "$package" "$2" "$skip" >"$log" 2>&1 || code=$?
	if ((code)) && panicked; then
		echo "vm: the guest's kernel has panicked, which is no result: $package runs again in a new guest" >&2
		mv "$log" "$log.panic"
		cp "$dir/$guest/console.log" "$log.console"
		hack/vm/guest.sh down
		up
		code=0
		in_guest "$package" "$2" "$skip" >"$log" 2>&1 || code=$?
	fi
	if ((code)); then
		grep -vE '^ *(=== |--- PASS)' "$log" | tail -n 200 || true
		failed+=("$package")
	fi
	printf 'vm: %s: %d tests passed, %d failed\n' "$package" "$(grep -c '^ *--- PASS' "$log")" "$(grep -c '^ *--- FAIL' "$log")"
	unexpected=$(skipped "$log")
	if [[ -n $unexpected ]]; then
		# shellcheck disable=SC2086
		printf "vm: $package: skipped, and not in hack/vm/lacks: %s\n" $unexpected >&2
		failed+=("$package")
	fi
}
for row in "${rows[@]}"; do
	regexp=${row#"${row%%:*}"}
	run "${row%%:*}" "${regexp#:}"
done

for package in "${packages[@]}"; do
	for test in $(lacking "$kernel" "$package"); do
		echo "vm: not run here, see hack/vm/lacks: $package $test"
	done
done
if [[ $# -eq 0 ]]; then
	hack/vm/guest.sh down
	hack/vm/systemd.sh || failed+=(test/systemd)
	hack/vm/storage.sh || failed+=(volumes)
	GUEST=iscsi hack/vm/iscsi.sh || failed+=(iSCSI)
	hack/vm/packages.sh || failed+=(packages)
	hack/vm/compose.sh || failed+=(docker-compose.yml)
	# In an emulated machine a pod takes a minute to start.
	[[ $kernel != uml ]] || hack/vm/cridiff.sh || failed+=(test/cridiff)
fi
if ((${#failed[@]})); then
	echo "vm: failed in the guest: ${failed[*]}; the outputs are in $logs" >&2
	exit 1
fi
stage "all passed in the guest"
