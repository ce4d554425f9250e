package execsvc

import (
	"errors"
	"fmt"
	"testing"

	"github.com/podstream/podstream/internal/execsvc/setup/volume"
)

// The event of a failed block volume has the kubelet's reason.
func TestSetUpReason(t *testing.T) {
	for operation, want := range map[string]string{
		"MapVolume.SetUpDevice": "FailedMapVolume", "MapVolume.MapPodDevice": "FailedMapVolume", "MountVolume.MountDevice": "FailedMount",
		"VerifyControllerAttachedVolume": "FailedMount",
	} {
		err := fmt.Errorf("set up: %w", &volume.OperationError{Operation: operation, Volume: "pv", Err: errors.New("no")})
		if got := setUpReason(err); got != want {
			t.Errorf("%s: %s; want %s", operation, got, want)
		}
	}
}
