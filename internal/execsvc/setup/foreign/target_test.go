package foreign

import (
	"reflect"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/foreign/initiator"
)

// TestTarget: where a job mounts is known, also of an iSCSI disk. None of package initiator mounts: a new one must be looked at.
func TestTarget(t *testing.T) {
	j := Job{Mount: &Mount{Disk: &initiator.Disk{}, Target: "/at/"}}
	l := leftover{kind: j.kind(), target: "/at"}
	if j.target() != "/at" || !l.mayMount("v", "/at") || l.mayMount("v", "/other") {
		t.Errorf("the mount of a disk: %q, %+v", j.target(), l)
	}
	mounts := map[string]bool{"Look": false, "Attach": false, "Detach": false, "Logout": false, "Map": false, "Unmap": false}
	of := reflect.TypeFor[initiator.Job]()
	for i := range of.NumField() {
		if name := of.Field(i).Name; name != "Host" {
			if _, known := mounts[name]; !known {
				t.Errorf("does the job %s mount? Then it needs a target", name)
			}
		}
	}
}
