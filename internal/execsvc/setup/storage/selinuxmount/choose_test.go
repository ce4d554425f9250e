package selinuxmount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/metrictest"
)

// fedora are labels as Fedora's policy has them.
type fedora struct {
	off bool
	err error
}

// Enabled is part of Labels.
func (f fedora) Enabled() bool { return !f.off }

// FileLabel is part of Labels.
func (f fedora) FileLabel(o *v1.SELinuxOptions) (string, error) {
	user := o.User
	if user == "" {
		user = "system_u"
	}
	return fmt.Sprintf("%s:object_r:container_file_t:%s", user, o.Level), f.err
}

// labelOf is that of a level.
func labelOf(level string) string { return "system_u:object_r:container_file_t:" + level }

func level(l string) *v1.SELinuxOptions { return &v1.SELinuxOptions{Level: l} }

// pod has a container for each element, with these options, that mounts the volume "data". The pod has the first ones.
func pod(pods *v1.SELinuxOptions, containers ...*v1.SELinuxOptions) *v1.Pod {
	p := &v1.Pod{Spec: v1.PodSpec{SecurityContext: &v1.PodSecurityContext{SELinuxOptions: pods}}}
	for _, o := range containers {
		c := v1.Container{VolumeMounts: []v1.VolumeMount{{Name: "data"}}}
		if o != nil {
			c.SecurityContext = &v1.SecurityContext{SELinuxOptions: o}
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
	}
	return p
}

// TestContext: which volumes are mounted with which context.
func TestContext(t *testing.T) {
	recursive := pod(level("s0:c1,c2"), nil)
	recursive.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(v1.SELinuxChangePolicyRecursive)
	byMount := pod(level("s0:c1,c2"), nil)
	byMount.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(v1.SELinuxChangePolicyMountOption)
	recursiveMany := pod(nil, level("s0:c1"), level("s0:c2"))
	recursiveMany.Spec.SecurityContext.SELinuxChangePolicy = ptr.To(v1.SELinuxChangePolicyRecursive)
	elsewhere := pod(level("s0:c1,c2"), nil, level("s0:c9"))
	elsewhere.Spec.Containers[1].VolumeMounts[0].Name = "other"
	inits := pod(nil, nil)
	inits.Spec.InitContainers = pod(nil, level("s0:c3")).Spec.Containers
	many := "multiple SELinux labels found: "
	for name, test := range map[string]struct {
		pod    *v1.Pod
		change func(*Volume, *Chooser)
		// want is the context, err part of the error.
		want, err string
		// free is set if other contexts don't matter.
		free bool
	}{
		"the pod's":                     {pod: pod(level("s0:c1,c2"), nil), want: labelOf("s0:c1,c2")},
		"the container's":               {pod: pod(level("s0:c1,c2"), level("s0:c3")), want: labelOf("s0:c3")},
		"of an init container":          {pod: inits, want: labelOf("s0:c3")},
		"MountOption":                   {pod: byMount, want: labelOf("s0:c1,c2")},
		"the same twice":                {pod: pod(level("s0:c1"), nil, level("s0:c1")), want: labelOf("s0:c1")},
		"of those with options":         {pod: pod(nil, nil, level("s0:c1")), want: labelOf("s0:c1")},
		"another volume's container":    {pod: elsewhere, want: labelOf("s0:c1,c2")},
		"Recursive":                     {pod: recursive},
		"Recursive, different ones":     {pod: recursiveMany},
		"no options":                    {pod: pod(nil, nil)},
		"no security context":           {pod: &v1.Pod{Spec: v1.PodSpec{Containers: pod(nil, nil).Spec.Containers}}},
		"no container":                  {pod: pod(level("s0:c1"))},
		"no level":                      {pod: pod(&v1.SELinuxOptions{Type: "spc_t"}, nil, nil)},
		"different ones":                {pod: pod(nil, level("s0:c1"), level("s0:c2")), err: many + labelOf("s0:c1") + "," + labelOf("s0:c2")},
		"one with a level, one without": {pod: pod(level("s0:c1"), nil, &v1.SELinuxOptions{Type: "spc_t"}), err: many},
		"SELinux is off": {
			pod: pod(level("s0:c1"), nil), free: true, change: func(_ *Volume, c *Chooser) { c.Labels = fedora{off: true} },
		},
		"a driver without contexts": {pod: pod(level("s0:c1"), nil), free: true, change: func(v *Volume, _ *Chooser) { v.Mountable = false }},
		"a driver without contexts, different ones": {
			pod: pod(nil, level("s0:c1"), level("s0:c2")), free: true, change: func(v *Volume, _ *Chooser) { v.Mountable = false },
		},
		"inline": {pod: pod(level("s0:c1"), nil), free: true, change: func(v *Volume, _ *Chooser) { v.Persistent = false }},
		"inline, different ones": {
			pod: pod(nil, level("s0:c1"), level("s0:c2")), free: true, change: func(v *Volume, _ *Chooser) { v.Persistent = false },
		},
		"without SELinuxMount": {pod: pod(level("s0:c1"), nil), free: true, change: func(_ *Volume, c *Chooser) { c.OnlyReadWriteOncePod = true }},
		"without SELinuxMount, ReadWriteOncePod": {pod: pod(level("s0:c1"), nil), want: labelOf("s0:c1"), change: func(v *Volume, c *Chooser) {
			c.OnlyReadWriteOncePod, v.Modes = true, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
		}},
		"without SELinuxMount, two modes": {pod: pod(level("s0:c1"), nil), free: true, change: func(v *Volume, c *Chooser) {
			c.OnlyReadWriteOncePod, v.Modes = true, []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod, v1.ReadWriteOnce}
		}},
		"no label": {pod: pod(level("s0:c1"), nil), err: "policy", change: func(_ *Volume, c *Chooser) { c.Labels = fedora{err: errors.New("policy")} }},
	} {
		t.Run(name, func(t *testing.T) {
			c := &Chooser{Labels: fedora{}}
			v := Volume{Pod: test.pod, Name: "data", Mountable: true, Persistent: true, Modes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}}
			if test.change != nil {
				test.change(&v, c)
			}
			got, matters, err := c.Context(v)
			failed := test.err != "" && err != nil && strings.Contains(err.Error(), test.err)
			if got != test.want || matters == test.free || (err != nil || test.err != "") && !failed {
				t.Errorf("the context is %q (it matters: %t), %v; want %q, %q", got, matters, err, test.want, test.err)
			}
		})
	}
}

// TestHostileOptions: options of a pod can't end the mount option, and so add another one.
func TestHostileOptions(t *testing.T) {
	for _, o := range []*v1.SELinuxOptions{
		level(`s0",suid,dev,x="`), level("s0 suid"), level("s0\nsuid"), level(`s0\`), level("s0\x00"), level("s0'"), level("s0=1"), level("ü"),
		{Level: "s0", User: `u"`}, {Level: "s0", Role: `r,"`}, {Level: "s0", Type: `t"`}, level(strings.Repeat("c", maxOption+1)),
	} {
		got, _, err := (&Chooser{Labels: fedora{}}).Context(Volume{Pod: pod(o, nil), Name: "data", Mountable: true, Persistent: true})
		if e, ok := errors.AsType[*LabelError](err); !ok || got != "" || len(e.Error()) > 512 || strings.ContainsAny(e.Error(), "\n\x00") {
			t.Errorf("%.40q: the context is %q, %v", o, got, err)
		}
	}
	if got, want := Option(labelOf("s0:c1,c2")), `context="system_u:object_r:container_file_t:s0:c1,c2"`; got != want {
		t.Errorf("the option is %s; want %s", got, want)
	}
}

// TestMetrics: what keeps pods waiting is counted as an error, and what is ignored as a warning.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	c := &Chooser{Labels: fedora{}, Metrics: NewMetrics(registry)}
	for _, modes := range [][]v1.PersistentVolumeAccessMode{
		nil, {v1.ReadWriteOncePod}, {v1.ReadWriteOnce}, {v1.ReadWriteOnce, v1.ReadOnlyMany}, {v1.ReadOnlyMany, v1.ReadWriteMany},
	} {
		for _, p := range []*v1.Pod{pod(nil, level("s0:c1"), level("s0:c2")), pod(level("s0 "), nil), pod(level("s0"), nil)} {
			_, _, _ = c.Context(Volume{Pod: p, Name: "data", Mountable: true, Persistent: modes != nil, Modes: modes})
		}
	}
	want := map[string]float64{
		"volume_manager_selinux_container_warnings_total{access_mode=inline}":            1,
		"volume_manager_selinux_container_warnings_total":                                1,
		"volume_manager_selinux_container_errors_total":                                  4,
		"volume_manager_selinux_pod_context_mismatch_warnings_total{access_mode=inline}": 1,
		"volume_manager_selinux_pod_context_mismatch_warnings_total":                     1,
		"volume_manager_selinux_pod_context_mismatch_errors_total":                       4,
	}
	for _, mode := range []string{"RWOP", "RWO", "ROX", "RWX"} {
		want["volume_manager_selinux_container_errors_total{access_mode="+mode+"}"] = 1
		want["volume_manager_selinux_pod_context_mismatch_errors_total{access_mode="+mode+"}"] = 1
	}
	metrictest.Want(t, registry, want)
}

// TestLabelled: the uppermost mount at a path decides whether its files have labels.
func TestLabelled(t *testing.T) {
	table := filepath.Join(t.TempDir(), "mountinfo")
	lines := []string{
		"1 1 8:1 / / rw,relatime shared:1 - xfs /dev/a rw,seclabel",
		"2 1 8:2 / /pods rw,relatime - xfs /dev/b rw,seclabel",
		"3 2 8:3 / /pods/a/mount rw,relatime - xfs /dev/c rw,seclabel",
		"4 2 8:4 / /pods/b/mount rw,relatime - nfs4 server:/x rw",
		`5 2 8:5 / /pods/c/mount rw,relatime - xfs /dev/d rw,context="system_u:object_r:container_file_t:s0:c1,c2"`,
		"6 2 8:6 / /pods/d/mount rw,relatime - xfs /dev/e rw,seclabel",
		"7 2 8:7 / /pods/d/mount rw,relatime - nfs4 server:/x rw",
		"8 2 8:8 / /pods/e/mount rw,relatime,seclabel - tmpfs tmpfs rw",
		`9 2 8:9 / /the\040pods/f/mount rw,relatime - nfs4 server:/x rw`,
	}
	if err := os.WriteFile(table, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/pods/a/mount": true, "/pods/b/mount": false, "/pods/c/mount": false, "/pods/d/mount": false, "/pods/e/mount": true,
		"/the pods/f/mount": false, "/pods/b/mountain": true, "/pods/b/mount/sub": false, "/else": true,
	} {
		if got, err := Labelled(table, path); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", path, got, err, want)
		}
	}
	if _, err := Labelled(filepath.Join(t.TempDir(), "missing"), "/"); err == nil {
		t.Error("a table that can't be read is no error")
	}
}

// TestNode: the node's labels are those of its policy. A node without SELinux has none.
func TestNode(t *testing.T) {
	var n Node
	for range 2 {
		got, err := n.FileLabel(&v1.SELinuxOptions{Level: "s0:c1,c2"})
		switch {
		case err != nil:
			t.Fatal(err)
		case !n.Enabled() && got != "":
			t.Errorf("the label is %q without SELinux", got)
		case n.Enabled() && got != "" && !strings.HasSuffix(got, ":s0:c1,c2"):
			t.Errorf("the label is %q; want the level s0:c1,c2", got)
		}
	}
	all := arguments(&v1.SELinuxOptions{User: "u", Role: "r", Type: "t", Level: "s0"})
	if got := strings.Join(all, " "); got != "user:u role:r type:t level:s0" {
		t.Errorf("the library gets %s", got)
	}
}
