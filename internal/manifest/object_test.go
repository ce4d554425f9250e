package manifest

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestManagedFields: they may be invalid JSON, so no object has them; the caller's object keeps them.
func TestManagedFields(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "a", Namespace: "default", Labels: map[string]string{"app": "web"}, ManagedFields: []metav1.ManagedFieldsEntry{
		{Manager: "m", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{")},
	}}
	secret := &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte("v")}}
	config := &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": "v"}}
	fromSecret, err := NewSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	fromConfig, err := NewConfigMap(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Object{fromSecret, fromConfig} {
		var content any = o.ConfigMap
		if o.Secret != nil {
			content = o.Secret
		}
		if _, err := json.Marshal(content); err != nil {
			t.Errorf("%s can't be sent as JSON: %v", o.Key(), err)
		}
		if o.Meta().Labels["app"] != "web" || len(o.Meta().ManagedFields) > 0 {
			t.Errorf("%s has the metadata %v", o.Key(), o.Meta())
		}
	}
	if len(fromSecret.Secret.Data) != 1 || len(fromConfig.ConfigMap.Data) != 1 {
		t.Errorf("what is kept is %v and %v; want the data", fromSecret.Secret, fromConfig.ConfigMap)
	}
	if len(secret.ManagedFields) != 1 || len(config.ManagedFields) != 1 {
		t.Error("the caller's object was changed")
	}
}
