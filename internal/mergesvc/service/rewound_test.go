package service_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	"github.com/podstream/podstream/internal/mergesvc"
	"github.com/podstream/podstream/internal/mergesvc/service"
	"github.com/podstream/podstream/internal/mergesvc/store"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// TestG11DiskWentBack: a podconfigd whose disk has an older copy of its store learns that from the first consumer that is
// beyond it. From then on no cursor of the old instance is accepted, although its revision is reached again with other
// pods: consumers are caught up from their known pods. A second claim changes nothing.
func TestG11DiskWentBack(t *testing.T) {
	path := t.TempDir() + "/store"
	stored := func(path string) options {
		var hub *mergesvc.Hub
		return options{
			hub: func(cfg *mergesvc.Config) { cfg.Store = &store.Config{Path: path, NoSync: true} },
			service: func(cfg *service.Config) {
				cfg.Rewound = func(n uint64) { hub.Rewound(n) }
			},
			made: func(h *mergesvc.Hub) { hub = h },
		}
	}
	before := start(t, stored(path))
	before.set("file", "a: web(uid=u1)")
	before.set("api", "")
	old := copied(t, path)
	first, second := before.watch(reference(nil)), before.watch(reference(nil))
	var cursors []*podconfigv1.Cursor
	for _, s := range []*stream{first, second} {
		s.want("ADD file: u1")
		s.want("synced")
	}
	before.set("file", "a: web(uid=u1) db(uid=u2)")
	cursors = append(cursors, first.want("ADD file: u2").cursor)
	before.set("file", "a: web(uid=u1) db(uid=u2) far(uid=u3)")
	cursors = append(cursors, second.want("ADD file: u2").cursor, second.want("ADD file: u3").cursor)

	after := start(t, stored(old))
	instance := after.hub.History().Instance().ID
	if instance != cursors[0].GetInstanceId() {
		t.Fatalf("the copy's instance is %s; want %s", instance, cursors[0].GetInstanceId())
	}
	after.set("file", "a: web(uid=u1) db(uid=u2) far(uid=u3)")
	web := &podconfigv1.KnownPod{Uid: "u1", Source: "file", SpecDigest: "old"}
	// Its revision exists by now, and was another one: nothing shows that yet.
	early := after.watch(reference(cursors[0], web))
	early.want("synced")
	s := after.watch(reference(cursors[2], web, &podconfigv1.KnownPod{Uid: "u9", Source: "file"}))
	s.want("REMOVE file: u9", "ADD file: u2 u3", "UPDATE file: u1")
	renewed := s.want("synced").cursor
	for {
		m, err := early.Recv()
		if err != nil {
			wantCode(t, "the stream that went on from it", err, codes.Unavailable)
			break
		}
		if m.GetCursor().GetInstanceId() == renewed.GetInstanceId() {
			t.Fatalf("the stream goes on under the new instance: %v", m)
		}
	}
	if renewed.GetInstanceId() == instance {
		t.Errorf("the instance is still %s", instance)
	}
	if got := after.hub.History().Number(); got != cursors[0].GetRevision() {
		t.Fatalf("the last revision is %d; want %d, which stands for another state in the old instance", got, cursors[0].GetRevision())
	}
	after.watch(reference(cursors[0], web)).want("ADD file: u2 u3", "UPDATE file: u1")
	if inst := after.hub.History().Instance(); inst.Temporary || inst.ID != renewed.GetInstanceId() {
		t.Errorf("the instance is %v; want the renewed one, stored", inst)
	}
	lie := &podconfigv1.Cursor{InstanceId: renewed.GetInstanceId(), Revision: 1 << 60}
	after.watch(reference(lie, web)).want("ADD file: u2 u3", "UPDATE file: u1")
	if got := after.hub.History().Instance().ID; got != renewed.GetInstanceId() {
		t.Errorf("a second claim changed the instance to %s; want %s", got, renewed.GetInstanceId())
	}
}
