package apiobjects

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// A server that refuses every list as expired is requested as rarely as one that is away, and reported once.
func TestFollowExpiredLists(t *testing.T) {
	in(t, func(h *harness) {
		expired := failing(apierrors.NewResourceExpired("too old"))
		s := &script{lists: slices.Repeat([]func(metav1.ListOptions) (*v1.ServiceList, error){expired}, 60)}
		s.on(h)
		h.run()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(s.asked); n < 25 || n > 42 {
			t.Errorf("in five minutes it was tried %d times", n)
		}
		if lines := h.lines(); len(lines) != 1 || !strings.Contains(lines[0], "too old") {
			t.Errorf("the log is %q", lines)
		}
	})
}

// A watch that breaks, or ends, is repeated from its last version, without a list, at most once a second.
func TestFollowBrokenWatches(t *testing.T) {
	p := v1.ServicePort{Port: 80}
	in(t, func(h *harness) {
		const breaks = 10
		s := &script{lists: []func(metav1.ListOptions) (*v1.ServiceList, error){page("7", "", at(newService("shop", "a", "1.1.1.1", p), "3"))}}
		var begun []time.Time
		for i := range breaks {
			s.watches = append(s.watches, func() (watch.Interface, error) {
				begun = append(begun, time.Now())
				w := watch.NewFakeWithOptions(watch.FakeOptions{ChannelSize: 2})
				w.Modify(at(newService("shop", "a", "1.1.1.2", p), "8"))
				if i%2 == 0 {
					w.Error(&apierrors.NewInternalError(errors.New("unable to decode an event")).ErrStatus)
				} else {
					w.Stop()
				}
				return w, nil
			})
		}
		s.watches = append(s.watches, func() (watch.Interface, error) { return watch.NewFake(), nil })
		s.on(h)
		h.run()
		time.Sleep(time.Minute)
		synctest.Wait()
		if took := begun[len(begun)-1].Sub(begun[0]); took < (breaks-1)*firstPause {
			t.Errorf("%d watches began within %v", breaks, took)
		}
		want := append([]string{"list 500 of spec.clusterIP!=None", "watch 7"}, slices.Repeat([]string{"watch 8"}, breaks)...)
		if !slices.Equal(s.asked, want) {
			t.Errorf("asked %q\n want %q", s.asked, want)
		}
	})
}

// A server that no longer serves a version of the API is asked which one it serves.
func TestFollowFindsAgain(t *testing.T) {
	in(t, func(h *harness) {
		found := 0
		h.doing(func(ctx context.Context) {
			h.classes.follow(ctx, func(ctx context.Context) (Resource, error) {
				found++
				r := must[Resource](t)(h.findClasses(ctx))
				if found == 1 {
					r.list = func(context.Context, metav1.ListOptions) (runtime.Object, error) {
						return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "runtimeclasses"}, "")
					}
				}
				return r, nil
			})
		})
		time.Sleep(time.Minute)
		if handler := must[string](t)(h.Handler(ofClass(podOf("a", "api"), "sandboxed"))); found != 2 || handler != "runsc" {
			t.Errorf("the resource was found %d times, and the handler is %q", found, handler)
		}
	}, newClass("sandboxed", "runsc"))
}

// It ends at once, whether it awaits an event or the next attempt, and with its list, if one is under way.
func TestFollowEnds(t *testing.T) {
	refuses := func(r *Resource) {
		r.list = func(context.Context, metav1.ListOptions) (runtime.Object, error) { return nil, errRefused }
	}
	for name, tt := range map[string]struct {
		change func(*Resource)
		takes  time.Duration
	}{
		"in a watch":        {func(*Resource) {}, 0},
		"between its lists": {refuses, 0},
		"between its watches": {func(r *Resource) {
			r.watch = func(context.Context, metav1.ListOptions) (watch.Interface, error) { return nil, errRefused }
		}, 0},
		"in a list, which ends a second later": {func(r *Resource) {
			r.list = func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil, ctx.Err()
			}
		}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *harness) {
				end := h.doing(func(ctx context.Context) {
					h.services.follow(ctx, func(ctx context.Context) (Resource, error) {
						r := must[Resource](t)(h.findServices(ctx))
						tt.change(&r)
						return r, nil
					})
				})
				before := time.Now()
				end()
				if took := time.Since(before); took != tt.takes {
					t.Errorf("it has ended after %v; want %v", took, tt.takes)
				}
			})
		})
	}
}
