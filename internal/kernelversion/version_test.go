package kernelversion

import "testing"

// TestBefore: versions are compared by their numbers. An unknown one is older than each.
func TestBefore(t *testing.T) {
	for release, want := range map[string]bool{
		"4.19.0-generic": true, "5.4.0": true, "5.7.19": true, "5.8.0-rc1": false, "5.10": false, "5.15.0-1-amd64": false, "6.1.0": false, "10.0.0": false,
		"": true, "linux": true, "6": true,
	} {
		if got := parse(release).before(5, 8); got != want {
			t.Errorf("%q: %t; want %t", release, got, want)
		}
	}
	if Before(2, 6) || !Before(1000, 0) {
		t.Errorf("the kernel's version is %+v", running())
	}
}
