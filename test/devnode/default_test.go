package devnode

import "testing"

// TestCurrent has versions as distributions and containerd itself write them.
func TestCurrent(t *testing.T) {
	for output, want := range map[string]bool{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3\n": false,
		"containerd github.com/containerd/containerd 1.7.24~ds1 1.7.24~ds1-6+deb13u1\n": true,
		"containerd github.com/containerd/containerd/v2 2.4.2+unknown \n":               true,
		"containerd containerd.io v2.1.4 75cb2b7193e4e490e9fbdc236c0e811ccaba3376\n":    true,
		"containerd github.com/containerd/containerd 1.10.0 x\n":                        true,
		"containerd containerd.io 0.2.9 x\n":                                            false,
		"containerd\n":                                                                  false,
		"a b c\n":                                                                       false,
	} {
		if have := current(output); have != want {
			t.Errorf("current(%q) = %t", output, have)
		}
	}
}
