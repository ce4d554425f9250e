package cluster

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/podstream/podstream/test/cluster/control"
	"github.com/podstream/podstream/test/rig"
)

// fleetObjects is small by default, so that only gross errors fail. docs/fleet.md has 5000.
var fleetObjects = flag.Int("fleet-objects", 200, "`number` of ConfigMaps, or Secrets, whose first reading is measured")

// objectNamespaces is how many namespaces they are in.
const objectNamespaces = 20

// manyObjects are objects in several namespaces, each with a pod that refers to it.
type manyObjects struct {
	kube       kubernetes.Interface
	secrets    bool
	namespaces []string
	// names are NAMESPACE/NAME.
	names []string
}

func newManyObjects(t *testing.T, kube kubernetes.Interface, prefix string, secrets bool) *manyObjects {
	t.Helper()
	m := &manyObjects{kube: kube, secrets: secrets}
	for i := range objectNamespaces {
		m.namespaces = append(m.namespaces, fmt.Sprintf("%s-%d", prefix, i))
	}
	each(t, m.namespaces, func(name string) error {
		_, err := kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		return err
	})
	for i := range *fleetObjects {
		m.names = append(m.names, fmt.Sprintf("%s/object-%d", m.namespaces[i%objectNamespaces], i/objectNamespaces))
	}
	each(t, m.names, func(name string) error { return m.put(t.Context(), name, "1") })
	each(t, m.names, func(name string) error {
		namespace, name, _ := strings.Cut(name, "/")
		_, err := kube.CoreV1().Pods(namespace).Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{NodeName: namespace, AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{
				Name: "main", Image: "registry.invalid/main:1", EnvFrom: []corev1.EnvFromSource{m.reference(name)}}}},
		}, metav1.CreateOptions{})
		return err
	})
	t.Cleanup(func() {
		for _, namespace := range m.namespaces {
			// There is no controller that would empty a namespace.
			_ = kube.CoreV1().Pods(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}, metav1.ListOptions{})
			_ = kube.CoreV1().ConfigMaps(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
			_ = kube.CoreV1().Secrets(namespace).DeleteCollection(context.Background(), metav1.DeleteOptions{}, metav1.ListOptions{})
		}
	})
	return m
}

func (m *manyObjects) reference(name string) corev1.EnvFromSource {
	if m.secrets {
		return corev1.EnvFromSource{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
	}
	return corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

// put creates or changes an object, so that it has the value.
func (m *manyObjects) put(ctx context.Context, at, value string) error {
	namespace, name, _ := strings.Cut(at, "/")
	meta := metav1.ObjectMeta{Name: name}
	if m.secrets {
		all, object := m.kube.CoreV1().Secrets(namespace), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte(value)}}
		_, err := all.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = all.Update(ctx, object, metav1.UpdateOptions{})
		}
		return err
	}
	all, object := m.kube.CoreV1().ConfigMaps(namespace), &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"value": value}}
	_, err := all.Create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = all.Update(ctx, object, metav1.UpdateOptions{})
	}
	return err
}

func (m *manyObjects) delete(ctx context.Context, at string) error {
	namespace, name, _ := strings.Cut(at, "/")
	if m.secrets {
		return m.kube.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	}
	return m.kube.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})
}

// stored returns what the API server has.
func (m *manyObjects) stored(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range m.names {
		out[name] = missing
	}
	for _, namespace := range m.namespaces {
		if m.secrets {
			for _, o := range rig.Get(m.kube.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
				out[namespace+"/"+o.Name] = string(o.Data["value"])
			}
			continue
		}
		for _, o := range rig.Get(m.kube.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}))(t).Items {
			out[namespace+"/"+o.Name] = o.Data["value"]
		}
	}
	return out
}

// resource is the objects' resource.
func (m *manyObjects) resource() string {
	if m.secrets {
		return "secrets"
	}
	return "configmaps"
}

// allow gives the gateways rights to the objects: to all of a namespace, or else to each of them by its name.
func (m *manyObjects) allow(t *testing.T, byName bool) {
	t.Helper()
	for _, namespace := range m.namespaces {
		rule := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{m.resource()}, Verbs: []string{"get", "list", "watch"}}
		if byName {
			for _, name := range m.names {
				if name, ok := strings.CutPrefix(name, namespace+"/"); ok {
					rule.ResourceNames = append(rule.ResourceNames, name)
				}
			}
		}
		rig.Get(m.kube.RbacV1().Roles(namespace).Create(t.Context(),
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "objects"}, Rules: []rbacv1.PolicyRule{rule}}, metav1.CreateOptions{}))(t)
		rig.Get(m.kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "objects"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "objects"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: fleetGroup}},
		}, metav1.CreateOptions{}))(t)
	}
}

// awaitStored applies updates until the stream has what the API server has.
func (s *objectStream) awaitStored(t *testing.T, want map[string]string) {
	t.Helper()
	timeout := time.NewTimer(4 * time.Minute)
	defer timeout.Stop()
	for !maps.Equal(s.held, want) {
		select {
		case m, ok := <-s.messages:
			if !ok {
				t.Fatal("the stream of objects ended")
			}
			rig.Must(t, s.apply(m.GetUpdate()))
		case <-timeout.C:
			t.Fatalf("it has %d objects, and not the %d that the API server has; the output of podconfigd ends with:\n%s",
				len(s.held), len(want), s.daemon.Tail())
		}
	}
}

// TestManyObjects measures how long a gateway takes from its start until it has passed on all objects that pods refer to, with
// how many requests, and compares what it has with the API server's after changes.
func TestManyObjects(t *testing.T) {
	allowGateways(t)
	for _, c := range []struct {
		name            string
		secrets, byName bool
		args            []string
		// watches is how many it may have, of so many namespaces and objects.
		watches func(namespaces, objects int) int
	}{
		{name: "configmaps", watches: func(n, _ int) int { return n }},
		{name: "configmaps-by-name", byName: true, watches: func(_, n int) int { return n }},
		{name: "secrets", secrets: true, watches: func(_, n int) int { return n }},
		{name: "secrets-by-namespace", secrets: true, args: []string{"--watch-secrets=namespace"}, watches: func(n, _ int) int { return n }},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newManyObjects(t, fleetClient(t), c.name, c.secrets)
			m.allow(t, c.byName)
			want := m.stored(t)
			g := &gateway{node: &node{name: c.name, user: "podconfigd-" + c.name, group: fleetGroup, args: append([]string{"--nodes=*"}, c.args...)}}
			g.cgroup = newCgroup(t, c.name)
			begun := time.Now()
			g.launch(t, time.Now().Add(control.CertificateLife))
			g.cgroup.add(t, g.daemon)
			s := g.watchObjects(t)
			s.byNamespace = true
			check(t, "all objects come", func(t *testing.T) { s.awaitStored(t, want) })
			took, used := time.Since(begun), usageOf(t, g)
			verbs, watches := map[string]int{}, 0
			for _, r := range plane.requests(t, g.user, m.resource()) {
				verbs[fmt.Sprintf("%s %d", r.verb, r.code)]++
				if r.verb == "watch" && r.code == 200 {
					watches++
				}
			}
			t.Logf("%s: %d objects of %d namespaces in %v; %d watches; requests %v; CPU %v, %d MiB, %.0f%% of the time queued", c.name,
				len(m.names), objectNamespaces, took.Round(10*time.Millisecond), watches, verbs, used.cpu, used.memory>>20, 100*used.queued())
			if most := c.watches(objectNamespaces, len(m.names)); watches > most {
				t.Errorf("there are %d watches; want at most %d", watches, most)
			}
			check(t, "changes, deletions and objects that are made again come", func(t *testing.T) {
				some := slices.Clone(m.names[:min(100, len(m.names))])
				each(t, some, func(name string) error { return m.put(t.Context(), name, "2") })
				each(t, some[:40], func(name string) error { return m.delete(t.Context(), name) })
				each(t, some[:20], func(name string) error { return m.put(t.Context(), name, "3") })
				s.awaitStored(t, m.stored(t))
			})
		})
	}
}
