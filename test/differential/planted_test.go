package differential

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

// scene has every op in every mode. Each of its first sets produces a revision, so that a fault that counts
// revisions affects one of these and not the marker's.
var scene = []Step{
	set("file", pod("web", "u1", label("a")), pod("db", "u2")),
	set("api", pod("dns", "u3")),
	set("api", pod("dns", "u3", phase("Running"))),
	set("file", pod("web", "u1", label("b")), pod("db", "u2", deleted), pod("log", "u4", mirror("m"))),
	set("file", pod("web", "u1", label("b"), phase("Running")), pod("log", "u5")),
	set("http"),
	set("http", pod("cron", "u6", cpu("1"))),
	set("http", pod("cron", "u6", cpu("1"))),
	set("http", pod("cron", "u6", cpu("1"), version("2"))),
	set("http"),
}

// TestScene: without a fault there is no difference. Otherwise the tests of faults would show nothing.
func TestScene(t *testing.T) {
	if step, diff := play(t, injectd); step > 0 {
		t.Errorf("step %d:\n%s", step, diff)
	}
}

// TestFaultyPodstream: a podconfigd that breaks a promise is found.
func TestFaultyPodstream(t *testing.T) {
	for _, fault := range []string{"emit-unchanged", "skip-revision", "early-ready"} {
		t.Run(fault, func(t *testing.T) {
			if step, _ := play(t, injectdWithFaults, "PODSTREAM_FAILPOINTS="+fault); step == 0 {
				t.Error("the comparison notices nothing")
			}
		})
	}
}

// play sends the scene to both sides until they differ, and returns that step, counted from 1, and the
// difference. A stream that can't be read is a difference too.
func play(t *testing.T, program func() (string, error), env ...string) (int, string) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	both, err := startWith(t, path, env...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := both.close(); err != nil {
			t.Error(err)
		}
	})
	for i, step := range scene {
		diff, err := both.compare(step)
		if err != nil {
			return i + 1, err.Error()
		}
		if diff != "" {
			return i + 1, diff
		}
	}
	return 0, ""
}

// corruptions each change ops, or return nil if there is nothing that they can change.
var corruptions = map[string]func(ops []Op) []Op{
	"an op is lost":      func(ops []Op) []Op { return slices.Delete(ops, 0, 1) },
	"an op comes twice":  func(ops []Op) []Op { return append(ops, ops[0]) },
	"an op is made up":   func(ops []Op) []Op { return append(ops, Op{Op: "ADD", Source: "file"}) },
	"ops change places":  func(ops []Op) []Op { slices.Reverse(ops); return atLeast(2, ops) },
	"UPDATE for DELETE":  rename("DELETE", "UPDATE"),
	"ADD for UPDATE":     rename("UPDATE", "ADD"),
	"UPDATE for ADD":     rename("ADD", "UPDATE"),
	"UPDATE for RECONC.": rename("RECONCILE", "UPDATE"),
	"DELETE for REMOVE":  rename("REMOVE", "DELETE"),
	"ADD for SET":        rename("SET", "ADD"),
	"another source":     func(ops []Op) []Op { ops[0].Source = "relay"; return ops },
	"a pod is lost":      spoil(func(op *Op, i int) { op.Pods = slices.Delete(op.Pods, i, i+1) }),
	"a pod comes twice":  spoil(func(op *Op, i int) { op.Pods = append(op.Pods, op.Pods[i]) }),
	"another UID":        spoil(func(op *Op, i int) { op.Pods[i].UID += "x" }),
	"another name":       spoil(func(op *Op, i int) { op.Pods[i].Name += "x" }),
	"another namespace":  spoil(func(op *Op, i int) { op.Pods[i].Namespace += "x" }),
	"another image":      spoilContent(func(p *v1.Pod) { p.Spec.Containers[0].Image += "x" }),
	"another label":      spoilContent(func(p *v1.Pod) { p.Labels = map[string]string{"x": ""} }),
	"an annotation":      spoilContent(func(p *v1.Pod) { p.Annotations["x"] = "" }),
	"no config.source":   spoilContent(func(p *v1.Pod) { delete(p.Annotations, kubetypes.ConfigSourceAnnotationKey) }),
	"no config.seen":     spoilContent(func(p *v1.Pod) { delete(p.Annotations, kubetypes.ConfigFirstSeenAnnotationKey) }),
	"a bad config.seen":  spoilContent(func(p *v1.Pod) { p.Annotations[kubetypes.ConfigFirstSeenAnnotationKey] = "now" }),
	"another phase":      spoilContent(func(p *v1.Pod) { p.Status.Phase = "Unknown" }),
	"no deletion time": spoilContent(func(p *v1.Pod) {
		if p.DeletionTimestamp == nil {
			deleted(p)
		} else {
			p.DeletionTimestamp = nil
		}
	}),
	"another grace period": spoilContent(func(p *v1.Pod) { p.DeletionGracePeriodSeconds = new(int64) }),
	"seen again": func(ops []Op) []Op {
		for _, op := range ops {
			if op.Op == "UPDATE" || op.Op == "DELETE" || op.Op == "RECONCILE" {
				op.Pods[0].Annotations[kubetypes.ConfigFirstSeenAnnotationKey] = time.Now().Format(time.RFC3339Nano)
				return ops
			}
		}
		return nil
	},
}

// TestSpoiltOps changes the ops of one side, in every possible way, and expects that the comparison finds it,
// on either side. Each way must be possible in some step.
func TestSpoiltOps(t *testing.T) {
	upstream, podstream := recorded(t)
	for name, corrupt := range corruptions {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			spoilt := 0
			for m, mode := range Modes {
				for i := range scene {
					for side := range 2 {
						received := [2][]Op{clone(upstream[i][m]), clone(podstream[i][m])}
						if len(received[side]) == 0 {
							continue
						}
						if received[side] = corrupt(received[side]); received[side] == nil {
							continue
						}
						spoilt++
						var c Comparison
						for before := range i {
							if _, err := c.Step(upstream[before][m], podstream[before][m]); err != nil {
								t.Fatal(err)
							}
						}
						if diff, err := c.Step(received[0], received[1]); err != nil || diff == "" {
							t.Errorf("%s, step %d: %s and %s are the same to the comparison (%v)", mode.Name, i+1, Text(received[0]), Text(received[1]), err)
						}
					}
				}
			}
			if spoilt == 0 {
				t.Error("there were no ops to change in this way")
			}
		})
	}
}

// recorded returns the ops of both sides in each step of the scene, in each mode.
func recorded(t *testing.T) (upstream, podstream [][][]Op) {
	t.Helper()
	both, err := start(t)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := both.close(); err != nil {
			t.Error(err)
		}
	})
	for _, step := range scene {
		u, p, err := both.set(step)
		if err != nil {
			t.Fatal(err)
		}
		upstream, podstream = append(upstream, u), append(podstream, p)
	}
	return upstream, podstream
}

func clone(ops []Op) []Op {
	out := slices.Clone(ops)
	for i := range out {
		out[i].Pods = nil
		for _, p := range ops[i].Pods {
			out[i].Pods = append(out[i].Pods, p.DeepCopy())
		}
	}
	return out
}

func atLeast(n int, ops []Op) []Op {
	if len(ops) < n {
		return nil
	}
	return ops
}

// rename changes the first op of one kind to another kind.
func rename(from, to string) func([]Op) []Op {
	return func(ops []Op) []Op {
		i := slices.IndexFunc(ops, func(op Op) bool { return op.Op == from })
		if i < 0 {
			return nil
		}
		ops[i].Op = to
		return ops
	}
}

// spoil changes the last pod of the first op with pods.
func spoil(how func(op *Op, i int)) func([]Op) []Op {
	return func(ops []Op) []Op {
		for i := range ops {
			if n := len(ops[i].Pods); n > 0 {
				how(&ops[i], n-1)
				return ops
			}
		}
		return nil
	}
}

// spoilContent does the same for an op with content.
func spoilContent(how func(p *v1.Pod)) func([]Op) []Op {
	return func(ops []Op) []Op {
		for _, op := range ops {
			if n := len(op.Pods); n > 0 && op.Op != "REMOVE" {
				how(op.Pods[n-1])
				return ops
			}
		}
		return nil
	}
}
