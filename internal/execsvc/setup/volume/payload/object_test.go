package payload_test

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// objectVolume is a volume of a ConfigMap or a Secret, with the expected files or error.
type objectVolume struct {
	name     string
	items    []v1.KeyToPath
	mode     *int32
	optional bool
	want     map[string]string
	err      string
}

func testObjectVolumes(t *testing.T, rows map[string]objectVolume, files func(objectVolume) (map[string]payload.File, error)) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			got, err := files(row)
			if row.err != "" {
				checkError(t, err, row.err)
				return
			}
			checkFiles(t, got, err, row.want)
		})
	}
}

func TestConfigMap(t *testing.T) {
	testObjectVolumes(t, map[string]objectVolume{
		"all keys, binaryData before data": {
			name: "conf",
			want: map[string]string{"a.conf": "0644 - a", "blob": "0644 - \x00\x01", "both": "0644 - binary"},
		},
		"items, data before binaryData": {
			name: "conf", items: items("both=x/both", "blob=./blob"), mode: ptr.To[int32](0o400),
			want: map[string]string{"x/both": "0400 - text", "blob": "0400 - \x00\x01"},
		},
		"an item's mode": {
			name: "conf", items: withMode(items("a.conf=a"), 0), mode: ptr.To[int32](0o400), want: map[string]string{"a": "0000 - a"},
		},
		"one key at two paths": {
			name: "conf", items: items("a.conf=1", "a.conf=2"), want: map[string]string{"1": "0644 - a", "2": "0644 - a"},
		},
		"of two items with one path the later": {
			name: "conf", items: items("a.conf=x", "blob=./x"), want: map[string]string{"x": "0644 - \x00\x01"},
		},
		"missing":                {name: "none", err: `configmap "none" not found`},
		"missing, optional":      {name: "none", items: items("k=k"), optional: true, want: map[string]string{}},
		"key missing":            {name: "conf", items: items("k=k"), err: `configmap "conf" references non-existent config key: k`},
		"key missing, optional":  {name: "conf", items: items("k=k", "a.conf=a"), optional: true, want: map[string]string{"a": "0644 - a"}},
		"unknown":                {name: "unknown", err: objects.ErrUnknown.Error()},
		"unknown, optional":      {name: "unknown", optional: true, err: objects.ErrUnknown.Error()},
		"a key that is no path":  {name: "dots", err: `configmap "dots": path "..data" must not begin with ".."`},
		"a path that leads out":  {name: "conf", items: items("a.conf=../../etc/passwd"), err: `path "../../etc/passwd" must not contain ".."`},
		"a mode with setuid":     {name: "conf", items: withMode(items("a.conf=a"), 0o4755), err: `path "a": mode 04755`},
		"a mode below zero":      {name: "conf", items: withMode(items("a.conf=a"), -1), err: `path "a": mode`},
		"a default out of range": {name: "conf", mode: ptr.To[int32](0o1777), err: "mode 01777"},
	}, func(v objectVolume) (map[string]payload.File, error) {
		return payload.ConfigMap(&v1.ConfigMapVolumeSource{
			LocalObjectReference: v1.LocalObjectReference{Name: v.name}, Items: v.items, DefaultMode: v.mode, Optional: &v.optional,
		}, held)
	})
}

func TestSecret(t *testing.T) {
	testObjectVolumes(t, map[string]objectVolume{
		"all keys": {name: "keys", want: map[string]string{"tls.key": "0644 - hunter2", "tls.crt": "0644 - crt"}},
		"items": {
			name: "keys", items: items("tls.key=p/k"), mode: ptr.To[int32](0o440), want: map[string]string{"p/k": "0440 - hunter2"},
		},
		"missing":               {name: "none", err: `secret "none" not found`},
		"missing, optional":     {name: "none", optional: true, want: map[string]string{}},
		"key missing":           {name: "keys", items: items("tls.key=a", "k=k"), err: `references non-existent secret key: k`},
		"key missing, optional": {name: "keys", items: items("k=k"), optional: true, want: map[string]string{}},
		"unknown, optional":     {name: "unknown", optional: true, err: objects.ErrUnknown.Error()},
		"a key that leads out":  {name: "up", err: `secret "up": path "../x" must not contain ".."`},
	}, func(v objectVolume) (map[string]payload.File, error) {
		return payload.Secret(&v1.SecretVolumeSource{SecretName: v.name, Items: v.items, DefaultMode: v.mode, Optional: &v.optional}, held)
	})
}

// TestUnknownIsDistinct: errors.Is finds ErrUnknown, also in the error of a projected volume.
func TestUnknownIsDistinct(t *testing.T) {
	src := &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
		{ConfigMap: &v1.ConfigMapProjection{LocalObjectReference: v1.LocalObjectReference{Name: "none"}}},
		{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "unknown"}, Optional: ptr.To(true)}},
	}}
	_, err := payload.Projected(t.Context(), src, payload.Input{Pod: podOf(v1.PodSpec{}), Objects: held})
	if !errors.Is(err, objects.ErrUnknown) {
		t.Errorf("the error is %v, want one that is ErrUnknown", err)
	}
	checkError(t, err, `configmap "none" not found`)
}
