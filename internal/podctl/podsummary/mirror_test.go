package podsummary

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// A mirror pod is left out beside its static pod only: of the same name in the same namespace, and no mirror pod itself.
func TestWithoutMirrors(t *testing.T) {
	pod := func(namespace, name, uid string, mirror bool) *Pod {
		p := &Pod{Ref: &podconfigv1.PodRef{Namespace: namespace, Name: name, Uid: uid}, Content: &corev1.Pod{}}
		if mirror {
			p.Content.ObjectMeta = metav1.ObjectMeta{Annotations: map[string]string{MirrorAnnotation: "x"}}
		}
		return p
	}
	undecodable := &Pod{Ref: &podconfigv1.PodRef{Namespace: "a", Name: "other", Uid: "6"}}
	all := []*Pod{
		pod("a", "web", "1", false), pod("a", "web", "2", true), pod("b", "web", "3", true), pod("a", "gone", "4", true),
		pod("a", "gone", "5", true), undecodable,
	}
	var got []string
	for _, p := range WithoutMirrors(all) {
		got = append(got, p.Ref.GetUid())
	}
	if want := []string{"1", "3", "4", "5", "6"}; !slices.Equal(got, want) || len(all) != 6 || all[1].Ref.GetUid() != "2" {
		t.Errorf("the pods are %q; want %q", got, want)
	}
}
