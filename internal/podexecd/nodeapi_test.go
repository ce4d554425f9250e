package podexecd

import (
	"testing"

	"github.com/podstream/podstream/internal/execconfig"
	"github.com/podstream/podstream/internal/execsvc/setup/cgroup"
)

func TestPodsCgroup(t *testing.T) {
	for _, c := range []struct {
		root, driver, want string
	}{
		{"", cgroup.Cgroupfs, "/kubepods"},
		{"/", cgroup.Systemd, "/kubepods.slice"},
		{"/my-own/pods", cgroup.Cgroupfs, "/my-own/pods/kubepods"},
		{"/my-own/pods", cgroup.Systemd, "/my_own.slice/my_own-pods.slice/my_own-pods-kubepods.slice"},
	} {
		s := &execconfig.Settings{}
		s.CgroupsPerQOS, s.CgroupRoot = true, c.root
		if got := podsCgroup(s, c.driver); got != c.want {
			t.Errorf("%q by %s: %q; want %q", c.root, c.driver, got, c.want)
		}
		if s.CgroupsPerQOS = false; podsCgroup(s, c.driver) != "" {
			t.Error("there is one without --cgroups-per-qos")
		}
	}
}
