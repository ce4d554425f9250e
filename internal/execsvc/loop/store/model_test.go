package store_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/execsvc/decide/resize"
	"github.com/podstream/podstream/internal/execsvc/loop/store"
)

// TestModel makes random calls of a store, with restarts in between, and compares it with a model of a few maps.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		s := settingIn(dir)
		s.cfg.Committed = nil
		st, _, stop := s.open(t)
		defer func() { stop() }()
		pods := map[types.UID]client.Pod{}
		want := store.State{
			Statuses: map[types.UID]store.Status{}, Ends: map[types.UID]store.End{}, Allocations: map[types.UID]resize.Allocation{},
		}
		uids := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		number := 0
		rt.Repeat(map[string]func(*rapid.T){
			"apply": func(rt *rapid.T) {
				number++
				e := event(uint64(number))
				for range rapid.IntRange(0, 4).Draw(rt, "ops") {
					op := rapid.SampledFrom([]client.Op{
						client.Add, client.Update, client.Delete, client.Remove, client.Reconcile, client.Restore,
					}).Draw(rt, "op")
					pod := newPod(uids.Draw(rt, "uid"), "file", number)
					if op == client.Remove {
						delete(pods, pod.UID)
						pod = reference(pod)
					} else {
						pods[pod.UID] = pod
					}
					e.Ops = append(e.Ops, change(op, pod))
				}
				st.Apply(e)
				want.Cursor = e.Cursor
			},
			"status": func(rt *rapid.T) {
				number++
				uid, changed := types.UID(uids.Draw(rt, "uid")), time.UnixMilli(int64(number))
				want.Statuses[uid] = store.Status{
					Status: podStatus(v1.PodRunning, fmt.Sprint(number)), Changed: changed, Replaced: want.Statuses[uid].Replaced,
					Restart: want.Statuses[uid].Restart,
				}
				st.SetStatus(uid, want.Statuses[uid].Status, changed)
			},
			"replaced": func(rt *rapid.T) {
				uid, ids := types.UID(uids.Draw(rt, "uid")), rapid.SliceOfN(uids, 1, 2).Draw(rt, "ids")
				if status, ok := want.Statuses[uid]; ok {
					status.Replaced = ids
					want.Statuses[uid] = status
				}
				if err := st.SetReplaced(context.Background(), uid, ids); err != nil {
					rt.Fatal(err)
				}
			},
			"request": func(rt *rapid.T) {
				uid, containers := types.UID(uids.Draw(rt, "uid")), rapid.MapOfN(uids, uids, 1, 2).Draw(rt, "containers")
				status, ok := want.Statuses[uid]
				if ok {
					r := store.Restart{Containers: containers}
					if status.Restart != nil {
						r.Stopping = maps.Clone(status.Restart.Stopping)
						maps.DeleteFunc(r.Stopping, func(id string, _ time.Time) bool { return !replaces(containers, id) })
						if len(r.Stopping) == 0 {
							r.Stopping = nil
						}
					}
					status.Restart = &r
					want.Statuses[uid] = status
				}
				if err := st.SetRestart(context.Background(), uid, store.Restart{Containers: containers}); ok != (err == nil) {
					rt.Fatal(err)
				}
			},
			"stopping": func(rt *rapid.T) {
				number++
				uid, id, at := types.UID(uids.Draw(rt, "uid")), uids.Draw(rt, "id"), time.UnixMilli(int64(number))
				if status := want.Statuses[uid]; status.Restart != nil && replaces(status.Restart.Containers, id) {
					r := store.Restart{Containers: status.Restart.Containers, Stopping: maps.Clone(status.Restart.Stopping)}
					if r.Stopping == nil {
						r.Stopping = map[string]time.Time{}
					}
					r.Stopping[id] = at
					status.Restart = &r
					want.Statuses[uid] = status
				}
				st.SetRestartStopping(uid, id, at)
			},
			"complete": func(rt *rapid.T) {
				uid := types.UID(uids.Draw(rt, "uid"))
				if status, ok := want.Statuses[uid]; ok {
					status.Restart = nil
					want.Statuses[uid] = status
				}
				st.DropRestart(uid)
			},
			"end": func(rt *rapid.T) {
				uid := types.UID(uids.Draw(rt, "uid"))
				end := store.End{UID: uid, Grace: rapid.Int64().Draw(rt, "grace"), Removed: rapid.Bool().Draw(rt, "removed"), Deadline: time.UnixMilli(5)}
				if err := st.SetEnd(context.Background(), uid, end); err != nil {
					rt.Fatal(err)
				}
				end.Removed = end.Removed || want.Ends[uid].Removed
				want.Ends[uid] = end
			},
			"allocation": func(rt *rapid.T) {
				number++
				uid := types.UID(uids.Draw(rt, "uid"))
				if rapid.Bool().Draw(rt, "dropped") {
					delete(want.Allocations, uid)
					st.SetAllocation(uid, nil)
					return
				}
				a := allocation(int64(number))
				want.Allocations[uid] = a
				st.SetAllocation(uid, &a)
			},
			"drop": func(rt *rapid.T) {
				uid := types.UID(uids.Draw(rt, "uid"))
				delete(want.Statuses, uid)
				delete(want.Ends, uid)
				delete(want.Allocations, uid)
				st.Drop(uid)
			},
			"restart": func(rt *rapid.T) {
				stop()
				var got store.State
				st, got, stop = s.open(t)
				want.Pods = slices.Collect(maps.Values(pods))
				if diff := diff(want, got); diff != "" {
					rt.Fatalf("after a restart (-want +got):\n%s", diff)
				}
			},
		})
	})
}

// replaces reports whether the container with the ID is one of those to replace.
func replaces(containers map[string]string, id string) bool {
	return slices.Contains(slices.Collect(maps.Values(containers)), id)
}
