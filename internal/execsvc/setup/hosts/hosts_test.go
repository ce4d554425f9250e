package hosts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

const head = "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n" +
	"fe00::0\tip6-localnet\nfe00::0\tip6-mcastprefix\nfe00::1\tip6-allnodes\nfe00::2\tip6-allrouters\n"

var (
	someAliases = []v1.HostAlias{
		{IP: "10.0.0.2", Hostnames: []string{"db", "db.example"}},
		{IP: "10.0.0.1", Hostnames: []string{"cache"}},
		{IP: "10.0.0.2", Hostnames: []string{"old"}},
	}
	aliasLines = "\n# Entries added by HostAliases.\n10.0.0.2\tdb\tdb.example\n10.0.0.1\tcache\n10.0.0.2\told\n"
)

// inputOf returns the Input of container c in a pod with its own network, address and name.
func inputOf(t *testing.T) Input {
	return Input{
		PodDir: t.TempDir(), Pod: &v1.Pod{}, Container: &v1.Container{Name: "c"}, PodIPs: []string{"10.1.0.7"}, Hostname: "web",
	}
}

// mounted returns the content that the container sees.
func mounted(t *testing.T, in Input) string {
	t.Helper()
	got, err := Mount(in)
	if err != nil {
		t.Fatal(err)
	}
	want := &criconfig.Mount{HostPath: filepath.Join(in.PodDir, "etc-hosts"), ContainerPath: "/etc/hosts", SELinuxRelabel: true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	return read(t, got.HostPath)
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestMountOfAPodsOwnNetwork(t *testing.T) {
	for _, c := range []struct {
		name    string
		ips     []string
		domain  string
		aliases []v1.HostAlias
		want    string
	}{
		{name: "an address", ips: []string{"10.1.0.7"}, want: "10.1.0.7\tweb\n"},
		{name: "both families", ips: []string{"10.1.0.7", "fd00::7"}, want: "10.1.0.7\tweb\nfd00::7\tweb\n"},
		{
			name: "a subdomain", ips: []string{"10.1.0.7", "fd00::7"}, domain: "sub.shop.svc.c.local",
			want: "10.1.0.7\tweb.sub.shop.svc.c.local\tweb\nfd00::7\tweb.sub.shop.svc.c.local\tweb\n",
		},
		{name: "aliases", ips: []string{"10.1.0.7"}, aliases: someAliases, want: "10.1.0.7\tweb\n" + aliasLines},
	} {
		in := inputOf(t)
		in.PodIPs, in.Domain, in.Pod.Spec.HostAliases = c.ips, c.domain, c.aliases
		if diff := cmp.Diff(head+c.want, mounted(t, in)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

func TestMountOfTheNodesNetwork(t *testing.T) {
	in := inputOf(t)
	in.Pod.Spec.HostNetwork, in.Pod.Spec.HostAliases = true, someAliases
	in.PodIPs, in.Hostname = nil, ""
	want := "# Kubernetes-managed hosts file (host network).\n" + read(t, "/etc/hosts") + aliasLines
	if diff := cmp.Diff(want, mounted(t, in)); diff != "" {
		t.Error(diff)
	}
}

func TestContentFailsWithoutTheNodesFile(t *testing.T) {
	in := inputOf(t)
	in.Pod.Spec.HostNetwork = true
	for path, want := range map[string]string{"/nowhere": "no such file", "/dev/zero": "it is a device"} {
		if _, err := content(in, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestMountOmitted(t *testing.T) {
	none := func(name string, change func(*Input)) {
		in := inputOf(t)
		change(&in)
		if got, err := Mount(in); got != nil || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if _, err := os.Lstat(filepath.Join(in.PodDir, "etc-hosts")); !os.IsNotExist(err) {
			t.Errorf("%s: a file was created: %v", name, err)
		}
	}
	none("a pod without an address", func(in *Input) { in.PodIPs = nil })
	for _, path := range []string{"/etc/hosts", "/etc/hosts/", "etc/hosts", "/etc/../etc//hosts"} {
		none("mount at "+path, func(in *Input) { in.Container.VolumeMounts = []v1.VolumeMount{{MountPath: "/a"}, {MountPath: path}} })
	}
	in := inputOf(t)
	in.Container.VolumeMounts = []v1.VolumeMount{
		{MountPath: "/etc"}, {MountPath: "/etc/hosts.d"}, {MountPath: "/data", SubPath: "etc/hosts"},
	}
	if got := mounted(t, in); got != head+"10.1.0.7\tweb\n" {
		t.Error(got)
	}
}
