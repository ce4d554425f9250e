package criconfig

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestContainerHashGolden: these are the kubelet's hashes (pkg/kubelet/container/helpers_test.go). A kubelet, and another
// version of podexecd, restart the containers with other ones.
func TestContainerHashGolden(t *testing.T) {
	for want, c := range map[string]v1.Container{
		"8e45cbd0": {Name: "test_container", Image: "foo/image:v1"}, "11a6d6d6": {Name: "foo", Image: "bar"},
	} {
		if got := ContainerHash(&c); got != want {
			t.Errorf("ContainerHash of %s = %q, want the kubelet's %q", c.Name, got, want)
		}
	}
}

// TestFormerHash: a container of an earlier version goes on.
func TestFormerHash(t *testing.T) {
	web := v1.Container{Name: "web", Image: "nginx:1.29"}
	for recorded, want := range map[string]bool{
		"35e7dc319f4fedc6": true, ContainerHash(&web): true, "": false, "0": false, "35e7dc31": false, "11a6d6d6": false,
	} {
		if got := SameContainer(&web, recorded); got != want {
			t.Errorf("SameContainer of %q = %v, want %v", recorded, got, want)
		}
	}
}

func TestContainerHashCoversNameAndImageOnly(t *testing.T) {
	base := v1.Container{Name: "web", Image: "nginx:1.29"}
	same := base
	same.Args, same.Env, same.TTY = []string{"-v"}, []v1.EnvVar{{Name: "A", Value: "b"}}, true
	if ContainerHash(&same) != ContainerHash(&base) {
		t.Error("the hash covers more than name and image")
	}
	for _, other := range []v1.Container{
		{Name: "web2", Image: "nginx:1.29"}, {Name: "web", Image: "nginx:1.30"}, {Name: "we", Image: "bnginx:1.29"},
	} {
		if ContainerHash(&other) == ContainerHash(&base) {
			t.Errorf("%s %s has the hash of %s %s", other.Name, other.Image, base.Name, base.Image)
		}
	}
}
