package podctl

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A volume whose type podctl has no text for is shown with that type's name in the manifest.
func TestVolumeText(t *testing.T) {
	bundle := []corev1.VolumeProjection{{DownwardAPI: &corev1.DownwardAPIProjection{}}, {ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}
	for want, source := range map[string]corev1.VolumeSource{
		"hostPath /srv": {HostPath: &corev1.HostPathVolumeSource{Path: "/srv"}},
		"nfs":           {NFS: &corev1.NFSVolumeSource{Server: "server", Path: "/export"}},
		"ephemeral":     {Ephemeral: &corev1.EphemeralVolumeSource{}},
		"projected: downwardAPI, clusterTrustBundle": {Projected: &corev1.ProjectedVolumeSource{Sources: bundle}},
		"unknown": {},
	} {
		if got := volumeText(&corev1.Volume{Name: "v", VolumeSource: source}); got != want {
			t.Errorf("the volume is shown as %q; want %q", got, want)
		}
	}
}
