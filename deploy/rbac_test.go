// Package deploy_test checks the manifests that stand here.
package deploy_test

import (
	"bytes"
	"os"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/podstream/podstream/internal/clusteruid"
)

// subresources are those that are used, with the verbs that each has.
var subresources = map[schema.GroupResource][]string{
	{Resource: "nodes/status"}:                  {"get", "patch", "update"},
	{Resource: "pods/status"}:                   {"get", "patch", "update"},
	{Resource: "persistentvolumeclaims/status"}: {"get", "patch", "update"},
	{Resource: "serviceaccounts/token"}:         {"create"},
}

var verbs = []string{"create", "delete", "get", "list", "patch", "update", "watch"}

// An API server accepts each manifest; its rules name existing resources, and its bindings roles of the file.
func TestRoles(t *testing.T) {
	served := map[schema.GroupResource]bool{}
	for kind := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		served[plural.GroupResource()] = true
	}
	for _, file := range []string{"rbac.yaml", "gateway-rbac.yaml"} {
		roles, bound := map[string]bool{}, map[string]bool{}
		for _, object := range read(t, file) {
			switch o := object.(type) {
			case *rbacv1.ClusterRole:
				roles["ClusterRole "+o.Name] = true
				checkRules(t, o.Name, o.Rules, served)
			case *rbacv1.Role:
				roles["Role "+o.Name] = true
				checkRules(t, o.Namespace+"/"+o.Name, o.Rules, served)
			case *rbacv1.ClusterRoleBinding:
				bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = true
				checkBinding(t, o.RoleRef, o.Subjects)
			case *rbacv1.RoleBinding:
				bound[o.RoleRef.Kind+" "+o.RoleRef.Name] = true
				checkBinding(t, o.RoleRef, o.Subjects)
			default:
				t.Errorf("%s has a %T", file, object)
			}
		}
		for role := range bound {
			if !roles[role] {
				t.Errorf("%s: %s is bound, and isn't there", file, role)
			}
		}
		checkCluster(t, file, read(t, file))
		if len(roles) == 0 || len(bound) != len(roles) {
			t.Errorf("%s has %d roles, of which %d are bound", file, len(roles), len(bound))
		}
	}
}

// checkCluster checks that each group to which a role is bound may get Service default/kubernetes, and that the roles of its
// namespace grant nothing else.
func checkCluster(t *testing.T, file string, objects []runtime.Object) {
	t.Helper()
	granting, bound := map[string]bool{}, map[string]bool{}
	for _, object := range objects {
		if role, ok := object.(*rbacv1.Role); ok && role.Namespace == clusteruid.Namespace {
			for _, rule := range role.Rules {
				if slices.Equal(rule.APIGroups, []string{""}) && slices.Equal(rule.Resources, []string{"services"}) &&
					slices.Equal(rule.ResourceNames, []string{clusteruid.Service}) && slices.Equal(rule.Verbs, []string{"get"}) {
					granting[role.Name] = true
				} else {
					t.Errorf("%s: role %s/%s grants %+v", file, role.Namespace, role.Name, rule)
				}
			}
		}
	}
	for _, object := range objects {
		if b, ok := object.(*rbacv1.RoleBinding); ok && b.Namespace == clusteruid.Namespace && b.RoleRef.Kind == "Role" && granting[b.RoleRef.Name] {
			for _, s := range b.Subjects {
				bound[s.Name] = true
			}
		}
	}
	for _, object := range objects {
		if b, ok := object.(*rbacv1.ClusterRoleBinding); ok {
			for _, s := range b.Subjects {
				if !bound[s.Name] {
					t.Errorf("%s: the group %s may not get Service %s/%s", file, s.Name, clusteruid.Namespace, clusteruid.Service)
				}
			}
		}
	}
}

// read decodes a file's documents, strictly.
func read(t *testing.T, file string) []runtime.Object {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for document := range bytes.SplitSeq(data, []byte("\n---\n")) {
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v in\n%s", file, err, document)
		}
		objects = append(objects, object)
	}
	return objects
}

func checkRules(t *testing.T, role string, rules []rbacv1.PolicyRule, served map[schema.GroupResource]bool) {
	t.Helper()
	granted := map[string]bool{}
	for _, rule := range rules {
		if len(rule.APIGroups) != 1 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 {
			t.Errorf("%s: a rule that isn't for resources of one group: %+v", role, rule)
			continue
		}
		for _, name := range rule.Resources {
			resource := schema.GroupResource{Group: rule.APIGroups[0], Resource: name}
			has, ok := subresources[resource]
			if !ok {
				has, ok = verbs, served[resource]
			}
			if !ok {
				t.Errorf("%s: there is no resource %s", role, resource)
			}
			for _, verb := range rule.Verbs {
				if !slices.Contains(has, verb) {
					t.Errorf("%s: %s has no verb %s", role, resource, verb)
				}
				if granted[resource.String()+verb] {
					t.Errorf("%s: to %s %s is granted twice", role, verb, resource)
				}
				granted[resource.String()+verb] = true
			}
		}
	}
}

func checkBinding(t *testing.T, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
	t.Helper()
	if role.APIGroup != rbacv1.GroupName || len(subjects) == 0 {
		t.Errorf("a binding of %+v to %+v", role, subjects)
	}
	for _, s := range subjects {
		if s.APIGroup != rbacv1.GroupName || s.Kind != rbacv1.GroupKind || s.Name == "" {
			t.Errorf("%s is bound to %+v", role.Name, s)
		}
	}
}
