package actions

import "testing"

// A container that can't be resized in place restarts, whatever its restart policy, and runs on until its image is
// there.
func TestActionsOnOutgrown(t *testing.T) {
	for name, tt := range map[string]struct{ init, has, want string }{
		"one of two":            {"", "s0 a0@s0 b0@s0", "kill a0, start a1 in s0"},
		"a sidecar":             {"i*", "s0 i0@s0 a0@s0 b0@s0", "kill i0, kill a0, init i1 in s0, start a1 in s0"},
		"before its time":       {"i*", "s0 i0@s0", "kill i0, init i1 in s0"},
		"the sandbox died":      {"", "s0! a0@s0 b0@s0", "kill pod, sandbox s1, start a1 in s1, start b1 in s1"},
		"it has ended":          {"", "s0 a0=0@s0 b0@s0", "start a1 in s0"},
		"its successor runs":    {"", "s0 a0=0@s0 a1@s0 b0@s0", "nothing"},
		"a probe failed before": {"", "s0 a0-live@s0 b0@s0", "kill a0, start a1 in s0"},
	} {
		got := Compute(Input{
			Pod: sidecarPod(always, tt.init), Has: state(t, tt.has), Probes: probes(tt.has), Outgrown: map[string]bool{"a0": true, "i0": true},
		})
		if text(got) != tt.want {
			t.Errorf("%s: has %q:\ngot  %s\nwant %s", name, tt.has, text(got), tt.want)
		}
		for _, k := range got.Kill {
			if k.Hold == (name == "a probe failed before") || !k.Restart {
				t.Errorf("%s: %+v", name, k)
			}
		}
	}
	got := Compute(Input{Pod: specOf(never), Has: state(t, "s0 a0@s0 b0@s0"), Outgrown: map[string]bool{"a0": true}})
	if want := "kill a0, start a1 in s0"; text(got) != want {
		t.Errorf("never restarted otherwise: %s; want %s", text(got), want)
	}
}
