package robustness_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/mergetest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// The consumers of the good history, by their indexes.
const (
	exactly = iota
	filtering
	restored
	knowing
	snapshots
	behind
	foreign
	leaving
)

// good returns a history with one restart in which every promise is kept, with a consumer for each way to catch
// up.
func good(t *testing.T) *robustness.History {
	s := newScript(t, "file", "api")
	s.start(false, "i1", 0)
	s.set("file", "a: web(uid=u1)", 1)
	s.set("api", "x: job(uid=j1,label.app=web)", 2)
	s.set("api", "x: job(uid=j1,label.app=db)", 3)
	s.set("file", "a: web(uid=u1,phase=Running)", 4)
	s.set("file", "a: web(uid=u1,phase=Running)", 4)
	s.set("file", "a: shop(uid=u2)", 5)
	s.set("api", "x: job(uid=j1,label.app=db,deleting=30)", 6)
	s.kill("file", "a: shop(uid=u2,image=new)")
	s.start(true, "i1", 6)
	s.set("file", "a: shop(uid=u2)", 7)
	s.set("api", "x: [held]", 8)
	s.set("api", "", 9)

	c := s.consumer("exact")
	s.reads(c, 1, reference(nil), `
		SYNCED file api #0
		ADD file! @1 web(uid=u1) #1
		ADD api! @2 job(uid=j1,label.app=web) #2
		UPDATE api! @3 job(uid=j1,label.app=db) #3
		RECONCILE file! @4 web(uid=u1,phase=Running) #4
		HEARTBEAT 4 file! api!
		REMOVE file! @6 web(uid=u1,phase=Running) +
		ADD file! @6 shop(uid=u2) #5
		DELETE api! @7 job(uid=j1,label.app=db,deleting=30) #6`)
	s.reads(c, 2, reference(cursor(6)), `
		SYNCED file api #6
		ADD file! @9 #7
		ADD api! @10 #8
		REMOVE api! @11 job(uid=j1,label.app=db,deleting=30) #9`)

	c = s.consumer("filtering")
	req := reference(nil)
	req.Filter = &podconfigv1.PodFilter{LabelSelector: "app=web"}
	s.reads(c, 1, req, `
		SYNCED file api #0
		ADD file! @1 #1
		ADD api! @2 job(uid=j1,label.app=web) #2
		REMOVE api! @3 job(uid=j1,label.app=web) #3
		HEARTBEAT 6 file! api! #6`)

	c = s.consumer("restored")
	s.reads(c, 2, reference(nil), `
		RESTORE file shop(uid=u2) +
		RESTORE api job(uid=j1,label.app=db,deleting=30) #6
		SYNCED file api #6
		ADD file! @9 #7
		ADD api! @10 #8
		REMOVE api! @11 job(uid=j1,label.app=db,deleting=30) #9`)

	c = s.consumer("knowing")
	req = reference(nil)
	req.KnownPods = []*podconfigv1.KnownPod{known("file", "web(uid=u1)"), known("file", "shop(uid=u2)"), known("api", "job(uid=j1)")}
	s.reads(c, 2, req, `
		SYNCED file api #6
		REMOVE file! @9 web(uid=u1) +
		ADD file! @9 #7
		ADD api! @10 +
		DELETE api! @10 job(uid=j1,label.app=db,deleting=30) #8
		REMOVE api! @11 job(uid=j1,label.app=db,deleting=30) #9`)
	// The op on an undecided pod comes before the empty ADD.
	received := c.Streams[0].Received
	received[3].Message, received[4].Message = received[4].Message, received[3].Message
	received[3].Message.Continued, received[3].Message.Cursor = true, nil
	received[4].Message.Continued, received[4].Message.Cursor = false, cursor(8)

	c = s.consumer("snapshots")
	req = &podconfigv1.WatchPodUpdatesRequest{
		Mode:   podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES,
		Format: podconfigv1.PodFormat_POD_FORMAT_JSON,
	}
	s.reads(c, 1, req, `
		SET file +
		SYNCED file api #0
		SET file! @1 web(uid=u1) #1
		SET api! @2 web(uid=u1,ann.from=file) job(uid=j1,label.app=web) #2
		UPDATE api! @3 job(uid=j1,label.app=db) #3
		SET file! @6 shop(uid=u2) job(uid=j1,label.app=db,ann.from=api) #5
		DELETE api! @7 job(uid=j1,label.app=db,deleting=30) #6`)

	c = s.consumer("behind")
	req = reference(nil)
	req.Format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	s.reads(c, 1, req, `
		ADD file! web(uid=u1) +
		ADD api! job(uid=j1,label.app=db) #3
		SYNCED file! api! #3
		RECONCILE file! @4 web(uid=u1,phase=Running) #4
		REMOVE file! @6 web(uid=u1,phase=Running) +`).Drained = false
	req = proto.CloneOf(req)
	req.ResumeAfter = cursor(4)
	s.reads(c, 1, req, `
		REMOVE file! web(uid=u1,phase=Running) +
		ADD file! shop(uid=u2) +
		DELETE api! job(uid=j1,label.app=db,deleting=30) #6
		SYNCED file! api! #6`)

	c = s.consumer("foreign")
	req = reference(&podconfigv1.Cursor{InstanceId: "elsewhere", Revision: 5000, View: "v"})
	s.reads(c, 2, req, `
		SET file shop(uid=u2) job(uid=j1,label.app=db,deleting=30,ann.from=api) +
		SYNCED file api #6
		ADD file! @9 #7
		ADD api! @10 #8
		REMOVE api! @11 job(uid=j1,label.app=db,deleting=30) #9`)
	for _, p := range c.Streams[0].Received[0].Message.GetUpdate().GetPods() {
		p.Stale = true
	}

	c = s.consumer("leaving")
	req = reference(nil)
	req.Filter = &podconfigv1.PodFilter{Sources: []string{"api"}}
	s.reads(c, 2, req, `
		RESTORE api job(uid=j1,label.app=db,deleting=30) #6
		SYNCED api #6
		ADD api! @10 #8
		REMOVE api! @11 job(uid=j1,label.app=db,deleting=30) #9`)
	return &s.history
}

func known(source, pod string) *podconfigv1.KnownPod {
	p := mergetest.Set(source, 1, "x: "+pod).Origins[0].Pods[0]
	return &podconfigv1.KnownPod{
		Uid: string(p.UID), Source: source, Namespace: p.Namespace, Name: p.Name, SpecDigest: p.SpecDigest, StatusDigest: p.StatusDigest,
	}
}

// TestGoodHistory checks that no checker reports a correct history.
func TestGoodHistory(t *testing.T) {
	if err := robustness.Check(good(t)); err != nil {
		t.Errorf("a history that keeps every promise:\n%v", err)
	}
}

// promises returns the names of the broken promises.
func promises(breaches []*robustness.BreachError) []string {
	var out []string
	for _, b := range breaches {
		out = append(out, b.Promise)
	}
	return out
}

// TestCheckersAreThePromises checks that there is one checker for each promise of podconfig.proto, in the same
// order.
func TestCheckersAreThePromises(t *testing.T) {
	var got []string
	for _, c := range robustness.Checkers() {
		got = append(got, c.Name)
	}
	want := []string{"Ordered", "Reliable", "Unique", "Atomic", "Minimal", "Durable", "Resumable", "Isolated", "Ready", "Filtered", "Forward"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checkers (-want +got):\n%s", diff)
	}
}
