package csinode

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	a = Driver{Name: "a.example.com", NodeID: "i-1", Topology: map[string]string{"a.example.com/zone": "z1", "a.example.com/rack": "r1"}, MaxVolumes: 8}
	b = Driver{Name: "b.example.com", NodeID: "n1"}
)

const (
	entryOfA = "a.example.com=i-1[a.example.com/rack a.example.com/zone]8"
	entryOfB = "b.example.com=n1[]0"
	idsOfAB  = `{"a.example.com":"i-1","b.example.com":"n1"}`
	idsOfA   = `{"a.example.com":"i-1"}`
)

// TestCSINode: the object is the Node's, with upstream's annotation, before any driver is registered. Drivers are added at
// once, with their labels and IDs on the Node. When all is written, no more calls are made until the next check.
func TestCSINode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.want(t, "", "")
		w.serve(func(s *apiServer) {
			owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", UID: "node"}}
			if !slices.Equal(s.csinode.OwnerReferences, owner) {
				t.Errorf("the owners are %v", s.csinode.OwnerReferences)
			}
			const plugins = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,kubernetes.io/cinder," +
				"kubernetes.io/gce-pd,kubernetes.io/portworx-volume,kubernetes.io/vsphere-volume"
			if got := s.csinode.Annotations["storage.alpha.kubernetes.io/migrated-plugins"]; got != plugins {
				t.Errorf("the migrated plugins are %s", got)
			}
		})
		pass(time.Minute)
		w.register(b, a)
		w.want(t, entryOfA+" "+entryOfB, idsOfAB)
		w.serve(func(s *apiServer) {
			labels := map[string]string{"team": "x", "a.example.com/zone": "z1", "a.example.com/rack": "r1"}
			if !maps.Equal(s.node.Labels, labels) {
				t.Errorf("the labels are %v; want %v", s.node.Labels, labels)
			}
		})
		w.taken()
		pass(check / 2)
		w.register(a, b) // Another order, or a call of Refresh, is no change.
		if calls := w.taken(); len(calls) > 0 {
			t.Errorf("without a change: %v", calls)
		}
		pass(check)
		if calls := w.taken(); !slices.Equal(calls, []string{"GET nodes", "GET csinodes"}) {
			t.Errorf("the check: %v", calls)
		}
		c := a
		c.MaxVolumes = 9
		w.register(c, b)
		pass(floor)
		w.want(t, strings.Replace(entryOfA, "]8", "]9", 1)+" "+entryOfB, idsOfAB)
	})
}

// TestRegistrarRestart: a driver that registers again within a few seconds stays as it was. One that stays away is removed.
func TestRegistrarRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.register(a, b)
		pass(time.Minute)
		w.taken()
		w.register(a)
		pass(settle / 2)
		w.register(a, b)
		pass(time.Minute)
		if calls := w.taken(); len(calls) > 0 {
			t.Errorf("after a restart: %v", calls)
		}
		w.register(a)
		pass(settle / 2)
		w.register(a) // The end of one driver isn't hastened by news of others.
		pass(settle/2 - time.Second)
		w.want(t, entryOfA+" "+entryOfB, idsOfAB)
		pass(2 * time.Second)
		w.want(t, entryOfA, idsOfA)
		w.register()
		pass(settle + time.Second)
		w.want(t, "", "")
		w.serve(func(s *apiServer) {
			if _, has := s.node.Annotations[idAnnotation]; has || s.node.Labels["a.example.com/zone"] != "z1" {
				t.Errorf("without drivers: annotations %v, labels %v", s.node.Annotations, s.node.Labels)
			}
		})
	})
}

// TestAnotherID: the ID of an entry can't be changed, so that the entry is made again.
func TestAnotherID(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.register(a, b)
		c := a
		c.NodeID, c.Topology = "i-2", nil
		pass(floor)
		w.register(c, b)
		pass(floor)
		w.want(t, entryOfB+" a.example.com=i-2[]8", strings.Replace(idsOfAB, "i-1", "i-2", 1))
	})
}

// TestPodexecdRestart: drivers of before the restart have some minutes to register again, but one that registers and ends is
// removed before.
func TestPodexecdRestart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		end := w.run(t)
		w.register(a, b)
		pass(floor)
		end()
		w.register()
		w.run(t)
		pass(leftover / 2)
		w.want(t, entryOfA+" "+entryOfB, idsOfAB)
		w.register(b)
		pass(floor)
		w.register()
		pass(settle + floor)
		w.want(t, entryOfA, idsOfA)
		pass(leftover / 2)
		w.want(t, "", "")
	})
}

// TestAnotherNode: the CSINode of an earlier Node of that name is replaced, also when the Node is replaced later. What
// another client has added to this Node's CSINode stays.
func TestAnotherNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(func(s *apiServer) {
			s.csinode = csiNode("earlier", storagev1.CSINodeDriver{Name: "old.example.com", NodeID: "x"})
		})
		w.register(a)
		w.run(t)
		w.want(t, entryOfA, idsOfA)
		w.serve(func(s *apiServer) {
			s.setNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node2"}})
		})
		w.set(func() { w.uid = "" })
		pass(time.Hour)
		w.want(t, entryOfA, "")
		w.set(func() { w.uid = "node2" })
		w.want(t, entryOfA, idsOfA)
		w.serve(func(s *apiServer) {
			if got := s.csinode.OwnerReferences[0].UID; got != "node2" {
				t.Errorf("the owner is %s", got)
			}
			s.csinode.Labels = map[string]string{"kept": "yes"}
		})
		w.register(a, b)
		pass(floor)
		w.want(t, entryOfA+" "+entryOfB, idsOfAB)
		w.serve(func(s *apiServer) {
			if s.csinode.Labels["kept"] != "yes" {
				t.Error("another client's label is gone")
			}
		})
	})
}

// TestDeletedByOthers: objects that others change are repaired at the next check.
func TestDeletedByOthers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.register(a)
		pass(floor)
		w.serve(func(s *apiServer) {
			s.csinode = nil
			node := s.node.DeepCopy()
			node.Labels, node.Annotations = nil, map[string]string{idAnnotation: "not JSON"}
			s.setNode(node)
		})
		pass(2 * check)
		w.want(t, entryOfA, idsOfA)
	})
}

// TestServerIsAway: while the API server is away it is tried again seldom, and the failure is logged once.
func TestServerIsAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.serve(func(s *apiServer) { s.away = true })
		w.register(a)
		w.run(t)
		pass(time.Minute)
		w.serve(func(s *apiServer) { s.attempts = 0 })
		pass(time.Hour)
		w.serve(func(s *apiServer) {
			if n := s.attempts; n < 100 || n > 240 {
				t.Errorf("%d attempts in an hour; want one each %v to %v", n, lastPause, 3*lastPause/2)
			}
		})
		w.register(b)
		if n := w.logged("can't be kept"); n != 1 {
			t.Errorf("the failure is logged %d times", n)
		}
		w.serve(func(s *apiServer) { s.away = false })
		pass(2 * lastPause)
		w.want(t, entryOfB, `{"b.example.com":"n1"}`)
		if n := w.logged("is kept again"); n != 1 {
			t.Errorf("the end is logged %d times", n)
		}
	})
}

// TestConflicts: changes by other clients are read, and repeated at once.
func TestConflicts(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		others := 2
		w.serve(func(s *apiServer) {
			s.onWrite = func(method, what string) {
				if others--; others >= 0 && method != http.MethodPost {
					s.version++
					s.node.ResourceVersion, s.csinode.ResourceVersion = "other", "other"
				}
			}
		})
		w.register(a)
		pass(floor)
		w.want(t, entryOfA, idsOfA)
		if n := w.logged("can't be kept"); n > 0 || others > 0 {
			t.Errorf("%d conflicts are left, and they are logged %d times", others, n)
		}
	})
}

// TestLabelMeanwhile: a label that another client sets while a driver is registered isn't overwritten.
func TestLabelMeanwhile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.run(t)
		w.serve(func(s *apiServer) {
			s.onWrite = func(method, _ string) {
				if method == http.MethodPatch {
					s.onWrite = nil
					node := s.node.DeepCopy()
					node.Labels["a.example.com/zone"] = "theirs"
					s.setNode(node)
				}
			}
		})
		w.register(a)
		pass(time.Minute)
		w.want(t, "", "")
		w.serve(func(s *apiServer) {
			if got := s.node.Labels["a.example.com/zone"]; got != "theirs" {
				t.Errorf("the label is %s", got)
			}
		})
	})
}
