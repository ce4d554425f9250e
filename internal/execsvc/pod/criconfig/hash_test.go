package criconfig

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestContainerHashGolden: a hash that changes with a version of Podstream restarts every container at an upgrade.
func TestContainerHashGolden(t *testing.T) {
	if got, want := ContainerHash(&v1.Container{Name: "web", Image: "nginx:1.29"}), "35e7dc319f4fedc6"; got != want {
		t.Errorf("ContainerHash = %q, want %q as ever", got, want)
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
