package actions

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestActionsRestartAll(t *testing.T) {
	for name, tt := range map[string]struct{ has, want string }{
		"another code":             {"s0 i0=0@s0 a0=1@s0 b0@s0", "nothing"},
		"all runs":                 {"s0 i0=0@s0 a0@s0 b0@s0", "nothing"},
		"it asks":                  {"s0 i0=0@s0 a0=42@s0 b0@s0", "restart all after a0, kill b0, remove b0, remove i0, remove a0"},
		"one went already":         {"s0 i0=0@s0 a0=42@s0", "restart all after a0, remove i0, remove a0"},
		"it goes last":             {"s0 a0=42@s0", "restart all after a0, remove a0"},
		"then all starts again":    {"s0", "init i0 in s0"},
		"it asked before":          {"s0 i0=0@s0 a0=42@s0 a1@s0 b0@s0", "nothing"},
		"all of its past goes":     {"s0 i0=0@s0 a0=1@s0 a1=42@s0 b0=1@s0 b1@s0", "restart all after a1, kill b1, remove b1, remove b0, remove a0, remove i0, remove a1"},
		"unknown":                  {"s0 i0=0@s0 a0=42@s0 b0?@s0", "restart all after a0, kill b0, remove b0, remove i0, remove a0"},
		"the sandbox died with it": {"s0! i0=0@s0 a0=42@s0 b0=137@s0", "restart all after a0, remove b0, remove i0, remove a0"},
		"ephemeral ones stay":      {"s0 i0=0@s0 e0@s0 a0=42@s0", "restart all after a0, remove i0, remove a0"},
	} {
		pod := specOf(never, "i")
		pod.Spec.Containers[0].RestartPolicy = ptr.To(v1.ContainerRestartPolicyNever)
		pod.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{rule(restartAll, in, 42)}
		got := compute(t, pod, tt.has)
		if text(got) != tt.want {
			t.Errorf("%s: has %q:\ngot  %s\nwant %s", name, tt.has, text(got), tt.want)
		}
		for _, k := range got.Kill {
			if k.Grace != 0 || k.Hold {
				t.Errorf("%s: %s is killed with grace %d, held %t; want it at once", name, k.Container.ID, k.Grace, k.Hold)
			}
		}
	}
}
