package csi

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// TestSecrets: secrets that the driver repeats are not in errors, however they are spelled.
func TestSecrets(t *testing.T) {
	b := newBench(t, 0)
	f := b.start(t, "s")
	d, _ := b.register(t, "a.csi", "s")
	secrets := map[string]string{"password": "hunter\"2 &x", "short": "on", "pem": "first line\nsecond line\n", "empty": ""}
	f.fails(codes.Internal, `mount failed: -o password=hunter"2 &x 'hunter\"2 &x' hunter%222+%26x aHVudGVyIjIgJng= second line on, only once`)
	err := d.NodeStageVolume(t.Context(), Stage{VolumeID: "v", StagingPath: "/s", Secrets: secrets})
	const s = stripped
	want := "rpc error: code = Internal desc = mount failed: -o password=" + s + " '" + s + "' " + s + " " + s + " " + s + " " + s + ", only once"
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant\n%s", err, want)
	}
	f.fails(codes.Internal, strings.Repeat("hunter\"2 &x", 1000)+"\xff")
	err = d.NodeStageVolume(t.Context(), Stage{VolumeID: "v", StagingPath: "/s", Secrets: secrets})
	if err == nil || strings.Contains(err.Error(), "hunter") || len(err.Error()) > maxMessage+100 {
		t.Errorf("%v", err)
	}
	// Other fields aren't secret.
	f.fails(codes.Internal, "no volume hunter2")
	err = d.NodeStageVolume(t.Context(), Stage{VolumeID: "hunter2", StagingPath: "/s", VolumeContext: map[string]string{"a": "volume"}})
	if err == nil || !strings.Contains(err.Error(), "no volume hunter2") {
		t.Errorf("%v", err)
	}
}
