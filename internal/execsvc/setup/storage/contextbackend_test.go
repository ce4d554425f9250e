package storage

import (
	"strings"
	"testing"
	"testing/synctest"

	"k8s.io/apimachinery/pkg/types"
)

// contextual is a backend whose arguments have the context after a plus sign.
type contextual struct{ *truth }

// ContextOf is part of Labelled.
func (contextual) ContextOf(args string) string {
	_, context, _ := strings.Cut(args, "+")
	return context
}

// TestContextAfterRollback: a volume that is mounted with a context has it also if an older podexecd has written its record meanwhile, without
// the context: pods with the same one share it, and others don't.
func TestContextAfterRollback(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	l := &labelled{contexts: map[types.UID]string{"u1": "a", "u2": "a", "u3": "b", "u4": ""}}
	change := func(c *Config) {
		withContexts(l, nil)(c)
		c.Backends = map[string]Backend{"b": contextual{d}}
	}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, change)
		n.mustSetUp(pod("u1", "h"))
		n.stop()
		volumes, _, err := n.cfg.Records.Load(t.Context())
		if err != nil || len(volumes) != 1 || volumes[0].SELinuxContext != "a" {
			t.Fatalf("%+v, %v", volumes, err)
		}
		volumes[0].SELinuxContext = ""
		if err := n.cfg.Records.Write(&volumes[0]); err != nil {
			t.Fatal(err)
		}
		n = start(t, dir, d, change)
		n.waits(pod("u3", "h"), "ns/u1", "a", "b")
		n.waits(pod("u4", "h"), "ns/u1", "a", "")
		n.mustSetUp(pod("u2", "h"))
		for _, uid := range []types.UID{"u1", "u2", "u3", "u4"} {
			n.mustTearDown(uid)
		}
		n.empty()
		// A volume that isn't staged has it by its publications.
		s := newState(volumes[0].Key)
		s.Publications = volumes[0].Publications
		if s.readContext(contextual{d}); s.SELinuxContext != "a" {
			t.Errorf("without a stage the context is %q", s.SELinuxContext)
		}
	})
}

// TestNotParticular: a pod of a driver without contexts uses a volume as it is mounted.
func TestNotParticular(t *testing.T) {
	dir, d := t.TempDir(), newTruth()
	l := &labelled{contexts: map[types.UID]string{"u1": "a", "u3": "b"}}
	synctest.Test(t, func(t *testing.T) {
		n := start(t, dir, d, withContexts(l, nil))
		n.mustSetUp(pod("u1", "h"))
		n.mustSetUp(pod("u2", "h"))
		n.mustTearDown("u1")
		n.waits(pod("u3", "h"), "ns/u2", "a", "b")
		n.expect("mark name^h", "attached name^h", "stage h s0+a/dev/x", "publish h u1 p0+a", "publish h u2 p0", "unpublish h u1")
		n.mustTearDown("u2")
		n.mustSetUp(pod("u3", "h"))
		n.mustTearDown("u3")
		n.empty()
	})
}

// relabelling is a backend whose volumes the runtime labels.
type relabelling struct{ *truth }

// Relabels is part of Relabels.
func (relabelling) Relabels(Publishing) bool { return true }

// TestRelabel: the runtime labels a volume of a backend that says so, on a node with SELinux, unless the pod only reads it.
func TestRelabel(t *testing.T) {
	for name, test := range map[string]struct{ selinux, relabels, readOnly, want bool }{
		"it does":    {selinux: true, relabels: true, want: true},
		"no SELinux": {relabels: true},
		"no labels":  {selinux: true},
		"read-only":  {selinux: true, relabels: true, readOnly: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, d := t.TempDir(), newTruth()
			synctest.Test(t, func(t *testing.T) {
				n := start(t, dir, d, func(c *Config) {
					c.SELinux = test.selinux
					if test.relabels {
						c.Backends = map[string]Backend{"b": relabelling{d}}
					}
				})
				p := pod("u1", "h")
				p.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = test.readOnly
				n.mustSetUp(p)
				mounts, err := n.manager.Mounts(t.Context(), p, &p.Spec.Containers[0], nil)
				if err != nil || len(mounts) != 1 || mounts[0].SELinuxRelabel != test.want {
					t.Errorf("%+v, %v; want that it is labelled: %t", mounts, err, test.want)
				}
				n.mustTearDown("u1")
				n.empty()
			})
		})
	}
}
