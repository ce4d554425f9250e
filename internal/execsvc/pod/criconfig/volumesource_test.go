package criconfig

import "testing"

// TestNotSupported: the error of a source that podexecd never sets up says what to use instead.
func TestNotSupported(t *testing.T) {
	for name, want := range map[string]string{
		"fc":      "fc isn't supported: a CSI driver can attach disks of Fibre Channel",
		"gitRepo": "gitRepo isn't supported: git would run the repository's code as the node's root; clone it to an emptyDir in an init container",
		"rbd":     "rbd isn't supported yet",
	} {
		if err := NotSupported(name, name); err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
