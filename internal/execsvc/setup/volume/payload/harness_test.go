package payload_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podstream/podstream/internal/execsvc/pod/objects"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/payload"
)

// fakeObjects are the objects of a namespace, by name. A nil object is unknown; a missing one doesn't exist.
type fakeObjects struct {
	configMaps map[string]*v1.ConfigMap
	secrets    map[string]*v1.Secret
}

func (f fakeObjects) ConfigMap(name string) (*v1.ConfigMap, error) {
	return lookUp(f.configMaps, "configmap", name)
}

func (f fakeObjects) Secret(name string) (*v1.Secret, error) {
	return lookUp(f.secrets, "secret", name)
}

func lookUp[T any](held map[string]*T, kind, name string) (*T, error) {
	object, ok := held[name]
	switch {
	case !ok:
		return nil, fmt.Errorf("%s ns/%s: %w", kind, name, objects.ErrMissing)
	case object == nil:
		return nil, fmt.Errorf("%s ns/%s: %w", kind, name, objects.ErrUnknown)
	}
	return object, nil
}

// held are the objects that the tests' pods may refer to.
var held = fakeObjects{
	configMaps: map[string]*v1.ConfigMap{
		"conf": {
			Data:       map[string]string{"a.conf": "a", "both": "text"},
			BinaryData: map[string][]byte{"blob": {0, 1}, "both": []byte("binary")},
		},
		"dots":    {Data: map[string]string{"..data": "x"}},
		"unknown": nil,
	},
	secrets: map[string]*v1.Secret{
		"keys":    {Data: map[string][]byte{"tls.key": []byte("hunter2"), "tls.crt": []byte("crt")}},
		"up":      {Data: map[string][]byte{"../x": []byte("hunter2")}},
		"unknown": nil,
	},
}

func podOf(spec v1.PodSpec) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u", Labels: map[string]string{"app": "web"}},
		Spec:       spec,
	}
}

// describe formats files as "path mode uid data".
func describe(files map[string]payload.File) map[string]string {
	described := map[string]string{}
	for path, f := range files {
		owner := "-"
		if f.UID != nil {
			owner = fmt.Sprint(*f.UID)
		}
		described[path] = fmt.Sprintf("%04o %s %s", f.Mode, owner, f.Data)
	}
	return described
}

// checkFiles checks the files, formatted by describe, and that there is no error.
func checkFiles(t *testing.T, files map[string]payload.File, err error, want map[string]string) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, describe(files)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// checkError checks that the error contains the text, and no value of a Secret.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v, want one with %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error has a secret's value: %v", err)
	}
}

func items(pairs ...string) []v1.KeyToPath {
	var list []v1.KeyToPath
	for _, pair := range pairs {
		key, path, _ := strings.Cut(pair, "=")
		list = append(list, v1.KeyToPath{Key: key, Path: path})
	}
	return list
}

func withMode(list []v1.KeyToPath, mode int32) []v1.KeyToPath {
	for i := range list {
		list[i].Mode = ptr.To(mode)
	}
	return list
}
