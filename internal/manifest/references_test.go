package manifest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestReferences: each place in which a pod can name a ConfigMap or a Secret.
func TestReferences(t *testing.T) {
	local := v1.LocalObjectReference{Name: "x"}
	volume := func(v v1.VolumeSource) v1.PodSpec { return v1.PodSpec{Volumes: []v1.Volume{{VolumeSource: v}}} }
	env := []v1.EnvVar{
		{Name: "plain"}, {Name: "field", ValueFrom: &v1.EnvVarSource{FieldRef: &v1.ObjectFieldSelector{}}},
		{Name: "a", ValueFrom: &v1.EnvVarSource{ConfigMapKeyRef: &v1.ConfigMapKeySelector{LocalObjectReference: local, Key: "k"}}},
		{Name: "b", ValueFrom: &v1.EnvVarSource{SecretKeyRef: &v1.SecretKeySelector{LocalObjectReference: local, Key: "k"}}},
	}
	envFrom := []v1.EnvFromSource{
		{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "from"}}},
		{SecretRef: &v1.SecretEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "from"}}},
	}
	all := []string{"ConfigMap/from", "ConfigMap/x", "Secret/from", "Secret/x"}
	for _, tc := range []struct {
		name string
		spec v1.PodSpec
		want []string
	}{
		{"none", v1.PodSpec{Containers: []v1.Container{{Name: "c"}}}, nil},
		{"imagePullSecrets", v1.PodSpec{ImagePullSecrets: []v1.LocalObjectReference{{Name: "b"}, {Name: "a"}, {Name: "b"}, {}}},
			[]string{"Secret/a", "Secret/b"}},
		{"containers", v1.PodSpec{Containers: []v1.Container{{Env: env}, {EnvFrom: envFrom}}}, all},
		{"init containers", v1.PodSpec{InitContainers: []v1.Container{{Env: env, EnvFrom: envFrom}}}, all},
		{"ephemeral containers", v1.PodSpec{EphemeralContainers: []v1.EphemeralContainer{
			{EphemeralContainerCommon: v1.EphemeralContainerCommon{Env: env, EnvFrom: envFrom}},
		}}, all},
		{"configMap", volume(v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: local}}), []string{"ConfigMap/x"}},
		{"secret", volume(v1.VolumeSource{Secret: &v1.SecretVolumeSource{SecretName: "x"}}), []string{"Secret/x"}},
		{"projected", volume(v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{Secret: &v1.SecretProjection{LocalObjectReference: local}}, {ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: local}},
			{DownwardAPI: &v1.DownwardAPIProjection{}},
		}}}), []string{"ConfigMap/x", "Secret/x"}},
		{"azureFile", volume(v1.VolumeSource{AzureFile: &v1.AzureFileVolumeSource{SecretName: "x"}}), []string{"Secret/x"}},
		{"cephfs", volume(v1.VolumeSource{CephFS: &v1.CephFSVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"cinder", volume(v1.VolumeSource{Cinder: &v1.CinderVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"flexVolume", volume(v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"iscsi", volume(v1.VolumeSource{ISCSI: &v1.ISCSIVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"rbd", volume(v1.VolumeSource{RBD: &v1.RBDVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"scaleIO", volume(v1.VolumeSource{ScaleIO: &v1.ScaleIOVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"storageOS", volume(v1.VolumeSource{StorageOS: &v1.StorageOSVolumeSource{SecretRef: &local}}), []string{"Secret/x"}},
		{"csi", volume(v1.VolumeSource{CSI: &v1.CSIVolumeSource{NodePublishSecretRef: &local}}), []string{"Secret/x"}},
		{"volumes that name none", v1.PodSpec{Volumes: []v1.Volume{
			{VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}, {VolumeSource: v1.VolumeSource{RBD: &v1.RBDVolumeSource{}}},
			{VolumeSource: v1.VolumeSource{CSI: &v1.CSIVolumeSource{}}},
		}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, key := range References(&v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: tc.spec}) {
				if key.Namespace != "ns" {
					t.Errorf("%s isn't in the pod's namespace", key)
				}
				got = append(got, key.Kind.String()+"/"+key.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestObjectSizes: 1 MiB of data is accepted, in one key or in many; a byte more is refused, and so is an object that
// only its keys make too large.
func TestObjectSizes(t *testing.T) {
	text := func(kind, field, pad string, keys int, values string) string {
		var b strings.Builder
		b.WriteString("apiVersion: v1\nkind: " + kind + "\nmetadata: {name: a}\n" + field + ":\n")
		for i := range keys {
			fmt.Fprintf(&b, "  k%s%d: \"%s\"\n", pad, i, values)
		}
		return b.String()
	}
	mib := strings.Repeat("x", 1<<20)
	for _, tc := range []struct {
		name, text string
		wantErr    string
	}{
		{"a ConfigMap of 1 MiB", text("ConfigMap", "data", "", 1, mib), ""},
		{"a Secret of 1 MiB", text("Secret", "stringData", "", 1, mib), ""},
		{"a Secret of 1 MiB in many keys", text("Secret", "stringData", "", 1024, mib[:1024]), ""},
		{"a ConfigMap of a byte more", text("ConfigMap", "data", "", 1, mib+"x"), "Too long"},
		{"a Secret of more in many keys", text("Secret", "stringData", "", 1025, mib[:1024]), "Too long"},
		{"a ConfigMap of keys", text("ConfigMap", "data", strings.Repeat("x", 200), 8000, ""), "it is too large"},
		{"a ConfigMap of what JSON escapes", text("ConfigMap", "data", "", 1, strings.Repeat("<\\x01", 400<<10)), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := Parse([]byte(tc.text), fileOptions)
			checkOrigin(t, o)
			switch {
			case tc.wantErr == "" && (o.Held || len(o.Objects) != 1):
				t.Errorf("it isn't taken: %+v", o.Findings)
			case tc.wantErr != "" && (len(o.Findings) == 0 || !strings.Contains(o.Findings[0].Message, tc.wantErr)):
				t.Errorf("findings %+v; want one with %q", o.Findings, tc.wantErr)
			}
		})
	}
}

// TestObjectDigests: as podconfig.v1 defines it, of the content alone; JSON and protobuf don't distinguish empty
// bytes from none.
func TestObjectDigests(t *testing.T) {
	secret := func(s *v1.Secret) string {
		o, err := NewSecret(s)
		if err != nil {
			t.Fatal(err)
		}
		return o.Digest
	}
	yes := true
	base := &v1.Secret{Type: "Opaque", Data: map[string][]byte{"a": []byte("hello"), "b": {}}, Immutable: &yes}
	if want := sum([]byte(`{"data":{"a":"aGVsbG8=","b":""},"immutable":true,"type":"Opaque"}`)); secret(base) != want {
		t.Errorf("the digest is %s; want %s", secret(base), want)
	}
	same := base.DeepCopy()
	same.Data["b"], same.Labels, same.ResourceVersion = nil, map[string]string{"a": "b"}, "7"
	if secret(same) != secret(base) {
		t.Error("metadata, or no bytes for empty ones, make another digest")
	}
	other := base.DeepCopy()
	other.Data["c"] = nil
	if secret(other) == secret(base) {
		t.Error("a further key makes no other digest")
	}
	c, err := NewConfigMap(&v1.ConfigMap{Data: map[string]string{"<": "é\n"}, BinaryData: map[string][]byte{"b": {0}}})
	if want := sum([]byte(`{"binaryData":{"b":"AA=="},"data":{"<":"é\n"}}`)); err != nil || c.Digest != want {
		t.Errorf("the ConfigMap's digest is %s, %v; want %s", c.Digest, err, want)
	}
}

// TestSecretsStayOutOfFindings puts a value in each place of a Secret, breaks the document in many ways, and looks
// for the value in the findings, quoted or not.
func TestSecretsStayOutOfFindings(t *testing.T) {
	const value = "hunter2"
	documents := []string{
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\ndata: {a: hunter2!}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\ndata: [hunter2]\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\ndata: hunter2\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {a: {b: hunter2}}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {a: *hunter2}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {a: !!int hunter2}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {a: \"hunter2}\n",
		"\"kind\": \"Secret\"\n\"apiVersion\": 'v1'\nmetadata: {name: s}\nstringData: {a: \"\\hunter2\"}\n",
		"{\"kind\":\"Secret\",\"apiVersion\":\"v1\",\"stringData\":{\"a\":hunter2}}",
		"{\"kind\" : \"Secret\",\"apiVersion\":\"v1\",\"stringData\":{\"a\":\"hunter2}}",
		"kind: Secret\napiVersion: v1\nmetadata: {name: hunter2_}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s, namespace: hunter2_, labels: {a: hunter2/}}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\ntype: kubernetes.io/dockerconfigjson\nstringData: {.dockerconfigjson: hunter2}\n",
		"kind: Secret\napiVersion: hunter2\nmetadata: {name: s}\n",
		"kind: Secret\nstringData: {a: hunter2}\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nimmutable: hunter2\n",
		"kind: Secret\napiVersion: v1\nmetadata: {name: s, creationTimestamp: hunter2}\n",
	}
	for _, text := range documents {
		o := Parse([]byte(text), fileOptions)
		if !o.Held || len(o.Objects) > 0 {
			t.Errorf("%q is taken", text)
		}
		for _, f := range o.Findings {
			if strings.Contains(f.Message+f.Unquoted+f.Redacted().Message, value) {
				t.Errorf("of %q is told %+v", text, f)
			}
		}
	}
}
