package criconfig_test

import (
	"bytes"
	"reflect"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// untranslated are the fields that aren't translated, and why.
var untranslated = map[string]string{
	"PodSecurityContext.WindowsOptions":      "Linux only",
	"SecurityContext.WindowsOptions":         "Linux only",
	"PodSecurityContext.FSGroupChangePolicy": "how volumes are given to the group",
	"PodSecurityContext.SELinuxChangePolicy": "how volumes are labelled",
	"ResourceRequirements.Claims":            "devices, which are not allocated",
}

// Each field of a container's security context and resources changes the messages of some golden pod. A field that is
// added to the API fails here, until it has a pod or a reason.
func TestEveryFieldIsTranslated(t *testing.T) {
	matters := map[string]bool{}
	for _, pod := range goldenPods(t) {
		whole := pod.translated(t)
		pod.visitFields(func(field string, value reflect.Value) {
			old := reflect.New(value.Type()).Elem()
			old.Set(value)
			value.SetZero()
			if !bytes.Equal(whole, pod.translated(t)) {
				matters[field] = true
			}
			value.Set(old)
		})
	}
	for _, kind := range []reflect.Type{
		reflect.TypeFor[v1.PodSecurityContext](), reflect.TypeFor[v1.SecurityContext](), reflect.TypeFor[v1.ResourceRequirements](),
	} {
		for _, field := range fieldsOf(kind) {
			switch reason, excepted := untranslated[field]; {
			case excepted && matters[field]:
				t.Errorf("%s is translated, though it is said not to be: %s", field, reason)
			case !excepted && !matters[field]:
				t.Errorf("%s makes no difference to any pod in testdata/golden", field)
			}
		}
	}
}

// visitFields calls visit with each set field of the pod's security contexts and resource requirements, and of the
// values in them, under the name of its type and its own.
func (g goldenPod) visitFields(visit func(field string, value reflect.Value)) {
	visitFields(reflect.ValueOf(&g.Spec.SecurityContext).Elem(), visit)
	for _, list := range [][]v1.Container{g.Spec.InitContainers, g.Spec.Containers} {
		for i := range list {
			visitFields(reflect.ValueOf(&list[i].SecurityContext).Elem(), visit)
			visitFields(reflect.ValueOf(&list[i].Resources).Elem(), visit)
		}
	}
}

func visitFields(v reflect.Value, visit func(field string, value reflect.Value)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			visitFields(v.Elem(), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			visitFields(v.Index(i), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); !field.IsZero() {
				visit(v.Type().Name()+"."+v.Type().Field(i).Name, field)
				visitFields(field, visit)
			}
		}
	}
}

// fieldsOf are the names, as visitFields has them, of the type's fields and of those beneath, but for those of
// untranslated ones.
func fieldsOf(kind reflect.Type) []string {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for i := range kind.NumField() {
		name := kind.Name() + "." + kind.Field(i).Name
		names = append(names, name)
		if untranslated[name] == "" {
			names = append(names, fieldsOf(kind.Field(i).Type)...)
		}
	}
	return names
}
