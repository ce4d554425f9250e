package recording_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podstream/podstream/client"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The public client, fed from a recording, ends with the pods of the recorded consumer, wherever its streams end.
func TestClientConverges(t *testing.T) {
	list := example()
	for _, e := range list {
		for _, p := range e.Message.GetUpdate().GetPods() {
			object := v1.Pod{ObjectMeta: metav1.ObjectMeta{
				UID: types.UID(p.GetRef().GetUid()), Namespace: p.GetRef().GetNamespace(), Name: p.GetRef().GetName(),
			}}
			data, err := object.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			p.Content = &podconfigv1.Pod_Protobuf{Protobuf: data}
		}
	}
	path := file(t, list)
	for _, cfg := range []recording.ServerConfig{
		{Path: path},
		{Path: path, Once: true}, // the client reconnects after the end, and must receive no op twice
		{Path: path, Speed: 100},
	} {
		t.Run(fmt.Sprintf("once %t speed %v", cfg.Once, cfg.Speed), func(t *testing.T) {
			r := serve(t, cfg)
			c, err := client.New(client.Config{Endpoint: r.endpoint, Consumer: "test"})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			held := map[string]bool{}
			var ops []string
			syncs := 0
			done := errors.New("done")
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			err = c.Watch(ctx, client.WatchOptions{}, func(_ context.Context, e client.Event) error {
				for _, change := range e.Ops {
					for _, pod := range change.Pods {
						held[pod.Name] = true
						if change.Op == client.Remove {
							delete(held, pod.Name)
						}
						ops = append(ops, strings.TrimPrefix(change.Op.String(), "POD_OPERATION_")+" "+pod.Name)
					}
				}
				if e.Synced {
					syncs++
				}
				if e.Cursor.GetRevision() == 7 && (!cfg.Once || syncs == 2) {
					return done
				}
				return nil
			})
			if !errors.Is(err, done) {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(held)); !slices.Equal(got, []string{"web-2"}) {
				t.Errorf("the client holds %q; want web-2", got)
			}
			want := []string{"ADD web", "ADD db", "REMOVE web", "ADD web-2", "REMOVE db"}
			if !slices.Equal(ops, want) {
				t.Errorf("the client received %q; want %q", ops, want)
			}
		})
	}
}
