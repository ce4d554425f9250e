package payload_test

import (
	"context"
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/downward"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

func fieldItem(path, field string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{Path: path, FieldRef: &v1.ObjectFieldSelector{FieldPath: field}}
}

func cpuItem(path, container string) v1.DownwardAPIVolumeFile {
	return v1.DownwardAPIVolumeFile{
		Path: path, ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: container, Resource: "limits.cpu"},
	}
}

func TestDownwardAPI(t *testing.T) {
	pod := podOf(v1.PodSpec{Containers: []v1.Container{{Name: "main"}}})
	facts := downward.Facts{Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}}
	private := fieldItem("meta/uid", "metadata.uid")
	private.Mode = ptr.To[int32](0o400)
	files, err := payload.DownwardAPI(&v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		fieldItem("name", "metadata.name"), fieldItem("labels", "metadata.labels"), fieldItem("app", "metadata.labels['app']"),
		private, cpuItem("cpu", "main"),
	}}, pod, facts)
	checkFiles(t, files, err, map[string]string{
		"name": "0644 - p", "labels": `0644 - app="web"`, "app": "0644 - web", "meta/uid": "0400 - u", "cpu": "0644 - 4",
	})
}

// TestDownwardAPIErrors: one error names all items that fail.
func TestDownwardAPIErrors(t *testing.T) {
	_, err := payload.DownwardAPI(&v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
		fieldItem("ip", "status.podIP"), fieldItem("/etc/passwd", "metadata.name"), cpuItem("cpu", "absent"), {Path: "empty"},
	}}, podOf(v1.PodSpec{}), downward.Facts{})
	for _, want := range []string{
		"unsupported fieldPath: status.podIP", `path "/etc/passwd" must be relative`, "absent",
		`path "empty": neither fieldRef nor resourceFieldRef is set`,
	} {
		checkError(t, err, want)
	}
}

// tokens returns tokens that contain their request, or an error.
type tokens struct{ err error }

func (f tokens) Token(_ context.Context, pod *v1.Pod, p *v1.ServiceAccountTokenProjection) ([]byte, error) {
	return []byte(pod.Name + " for " + p.Audience), f.err
}

// bundles returns trust anchors that contain their name, or an error.
type bundles struct{ err error }

func (b bundles) TrustBundle(pod *v1.Pod, p *v1.ClusterTrustBundleProjection) ([]byte, error) {
	return []byte(*p.Name + " for " + pod.Name), b.err
}

func bundleSource(path string) v1.VolumeProjection {
	return v1.VolumeProjection{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Path: path, Name: ptr.To("roots")}}
}

func tokenSource(path string) v1.VolumeProjection {
	return v1.VolumeProjection{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: path, Audience: "vault"}}
}

func TestProjected(t *testing.T) {
	files, err := payload.Projected(t.Context(), &v1.ProjectedVolumeSource{
		DefaultMode: ptr.To[int32](0o440),
		Sources: []v1.VolumeProjection{
			{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "conf"}, Items: items("a.conf=x")}},
			{Secret: &v1.SecretProjection{
				LocalObjectReference: v1.LocalObjectReference{Name: "keys"}, Items: withMode(items("tls.key=./x", "tls.crt=crt"), 0o400),
			}},
			{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}, Optional: ptr.To(true)}},
			{DownwardAPI: &v1.DownwardAPIProjection{Items: []v1.DownwardAPIVolumeFile{fieldItem("name", "metadata.name")}}},
			tokenSource("token"), bundleSource("ca/roots.pem"),
		},
	}, payload.Input{Pod: podOf(v1.PodSpec{}), Objects: held, Tokens: tokens{}, Bundles: bundles{}})
	checkFiles(t, files, err, map[string]string{
		"x": "0400 - hunter2", "crt": "0400 - crt", "name": "0440 - p", "token": "0440 - p for vault", "ca/roots.pem": "0440 - roots for p",
	})
}

func TestProjectedErrors(t *testing.T) {
	for name, c := range map[string]struct {
		source  v1.VolumeProjection
		tokens  payload.Tokens
		bundles payload.Bundles
		want    string
	}{
		"no API server for tokens":        {source: tokenSource("t"), want: "serviceAccountToken: there is no API server"},
		"a token is refused":              {source: tokenSource("t"), tokens: tokens{errors.New("forbidden")}, want: "serviceAccountToken: forbidden"},
		"a token's path":                  {source: tokenSource("../t"), tokens: tokens{}, want: `path "../t" must not contain ".."`},
		"no API server for trust anchors": {source: bundleSource("ca"), want: "clusterTrustBundle: there is no API server"},
		"no such bundle":                  {source: bundleSource("ca"), bundles: bundles{errors.New("not found")}, want: "clusterTrustBundle: not found"},
		"a bundle's path":                 {source: bundleSource("/ca"), bundles: bundles{}, want: `path "/ca" must be relative`},
		"podCertificate": {
			source: v1.VolumeProjection{PodCertificate: &v1.PodCertificateProjection{KeyPath: "k"}}, want: "podCertificate needs an API server",
		},
		"nothing": {want: "of no known kind"},
	} {
		t.Run(name, func(t *testing.T) {
			src := &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{c.source}}
			_, err := payload.Projected(t.Context(), src, payload.Input{Pod: podOf(v1.PodSpec{}), Objects: held, Tokens: c.tokens, Bundles: c.bundles})
			checkError(t, err, c.want)
		})
	}
}

// TestTokenOwner: a token or trust anchors are readable for the one user that all containers run as, or for the
// fsGroup. Otherwise they have the volume's mode.
func TestTokenOwner(t *testing.T) {
	runAs := func(uid int64) *v1.SecurityContext { return &v1.SecurityContext{RunAsUser: &uid} }
	common := &v1.PodSecurityContext{RunAsUser: ptr.To[int64](1000)}
	for name, c := range map[string]struct {
		spec v1.PodSpec
		want string
	}{
		"nothing said": {v1.PodSpec{Containers: []v1.Container{{}}}, "0644 -"},
		"the pod's":    {v1.PodSpec{SecurityContext: common, Containers: []v1.Container{{}, {}}}, "0600 1000"},
		"the containers' agree": {
			v1.PodSpec{Containers: []v1.Container{{SecurityContext: runAs(7)}, {SecurityContext: runAs(7)}}}, "0600 7",
		},
		"root": {v1.PodSpec{Containers: []v1.Container{{SecurityContext: runAs(0)}}}, "0600 0"},
		"one says nothing": {
			v1.PodSpec{Containers: []v1.Container{{SecurityContext: runAs(7)}, {SecurityContext: &v1.SecurityContext{}}}}, "0644 -",
		},
		"they differ": {
			v1.PodSpec{SecurityContext: common, Containers: []v1.Container{{}, {SecurityContext: runAs(7)}}}, "0644 -",
		},
		"an init container differs": {
			v1.PodSpec{
				SecurityContext: common, Containers: []v1.Container{{}}, InitContainers: []v1.Container{{SecurityContext: runAs(0)}},
			}, "0644 -",
		},
		"an ephemeral container differs": {
			v1.PodSpec{SecurityContext: common, Containers: []v1.Container{{}}, EphemeralContainers: []v1.EphemeralContainer{
				{EphemeralContainerCommon: v1.EphemeralContainerCommon{SecurityContext: runAs(0)}},
			}}, "0644 -",
		},
		"an fsGroup": {
			v1.PodSpec{SecurityContext: &v1.PodSecurityContext{FSGroup: ptr.To[int64](5)}, Containers: []v1.Container{{}}}, "0600 -",
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{tokenSource("token"), bundleSource("ca")}}
			files, err := payload.Projected(t.Context(), src, payload.Input{Pod: podOf(c.spec), Tokens: tokens{}, Bundles: bundles{}})
			checkFiles(t, files, err, map[string]string{"token": c.want + " p for vault", "ca": c.want + " roots for p"})
		})
	}
}
