package attachlimit

import (
	"errors"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"
)

// TestExhausted: only the code ResourceExhausted counts, not the text.
func TestExhausted(t *testing.T) {
	for name, tc := range map[string]struct {
		err  *storagev1.VolumeError
		want bool
	}{
		"no error":     {nil, false},
		"no code":      {&storagev1.VolumeError{Message: "rpc error: code = ResourceExhausted desc = full"}, false},
		"another code": {&storagev1.VolumeError{ErrorCode: ptr.To[int32](14)}, false},
		"exhausted":    {&storagev1.VolumeError{ErrorCode: ptr.To[int32](8)}, true},
	} {
		if got := Exhausted(tc.err); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFails: a pod fails only for drivers with nodeAllocatableUpdatePeriodSeconds.
func TestFails(t *testing.T) {
	if Fails(nil) || Fails(&storagev1.CSIDriverSpec{}) || Fails(&storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr.To[int64](0)}) {
		t.Error("a pod fails for a driver without updates")
	}
	if !Fails(&storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr.To[int64](10)}) {
		t.Error("a pod waits for ever")
	}
}

// TestMessage: the message is the kubelet's.
func TestMessage(t *testing.T) {
	want := "Node has reached its volume attachment limit, rejecting pod. unmounted volumes=[a b], unattached volumes=[a], failed to process volumes=[]: full"
	if got := Message([]string{"a", "b"}, []string{"a"}, errors.New("full")); got != want {
		t.Errorf("%q; want %q", got, want)
	}
}
