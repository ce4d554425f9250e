package apiobjects

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
)

// script is an API server with a list of answers, which records requests.
type script struct {
	lists   []func(metav1.ListOptions) (*v1.ServiceList, error)
	watches []func() (watch.Interface, error)
	asked   []string
}

// on makes the harness's client send requests for services to the script.
func (s *script) on(h *harness) {
	h.api.PrependReactor("list", "services", func(action clienttesting.Action) (bool, runtime.Object, error) {
		options := action.(clienttesting.ListActionImpl).ListOptions
		s.asked = append(s.asked, fmt.Sprintf("list %d%s of %s", options.Limit, options.Continue, options.FieldSelector))
		next := s.lists[0]
		s.lists = s.lists[1:]
		list, err := next(options)
		if err != nil {
			return true, nil, err
		}
		return true, list, nil
	})
	h.api.PrependWatchReactor("services", func(action clienttesting.Action) (bool, watch.Interface, error) {
		s.asked = append(s.asked, "watch "+action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion)
		next := s.watches[0]
		s.watches = s.watches[1:]
		w, err := next()
		return true, w, err
	})
}

func page(version, more string, services ...*v1.Service) func(metav1.ListOptions) (*v1.ServiceList, error) {
	list := &v1.ServiceList{ListMeta: metav1.ListMeta{ResourceVersion: version, Continue: more}}
	for _, s := range services {
		list.Items = append(list.Items, *s)
	}
	return func(metav1.ListOptions) (*v1.ServiceList, error) { return list, nil }
}

func failing(err error) func(metav1.ListOptions) (*v1.ServiceList, error) {
	return func(metav1.ListOptions) (*v1.ServiceList, error) { return nil, err }
}

func at(s *v1.Service, version string) *v1.Service {
	s.ResourceVersion = version
	return s
}

// Lists come in pages; a watch continues from the end of the one before; an expired version is listed again, and
// objects that are gone then are removed. Failures are logged once.
func TestFollow(t *testing.T) {
	p := v1.ServicePort{Port: 80}
	in(t, func(h *harness) {
		first, last := watch.NewFake(), watch.NewFake()
		down := errors.New("connection refused")
		s := &script{
			lists: []func(metav1.ListOptions) (*v1.ServiceList, error){
				failing(down), failing(down), failing(apierrors.NewForbidden(v1.Resource("services"), "", nil)),
				page("7", "-next", at(newService("shop", "a", "1.1.1.1", p), "3")), page("7", "", at(newService("shop", "b", "2.2.2.2", p), "7")),
				page("20", "", at(newService("shop", "c", "3.3.3.4", p), "12")),
			},
			watches: []func() (watch.Interface, error){
				func() (watch.Interface, error) { return first, nil },
				func() (watch.Interface, error) { return nil, down },
				func() (watch.Interface, error) { return nil, apierrors.NewResourceExpired("too old") },
				func() (watch.Interface, error) { return last, nil },
			},
		}
		s.on(h)
		pod := podOf("p", "api")
		_, _ = h.Services(pod)
		h.run()
		see := func(want string) {
			t.Helper()
			env, err := h.Services(pod)
			if got := hosts(env); err != nil || got != want {
				t.Errorf("there is %q, %v; want %q", got, err, want)
			}
		}
		time.Sleep(time.Minute)
		h.wantWoken("p")
		see("A=1.1.1.1 B=2.2.2.2")
		first.Add(at(newService("shop", "c", "3.3.3.3", p), "9"))
		first.Action(watch.Bookmark, &v1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "11"}})
		first.Delete(at(newService("shop", "a", "1.1.1.1", p), "11"))
		first.Modify(at(newService("shop", "c", "3.3.3.4", p), "12"))
		synctest.Wait()
		see("B=2.2.2.2 C=3.3.3.4")
		first.Stop()
		time.Sleep(time.Minute)
		see("C=3.3.3.4")
		last.Delete(at(newService("shop", "c", "3.3.3.4", p), "21"))
		synctest.Wait()
		see("")
		all := "list 500 of spec.clusterIP!=None"
		want := []string{all, all, all, all, "list 500-next of spec.clusterIP!=None", "watch 7", "watch 12", "watch 12", all, "watch 20"}
		if !slices.Equal(s.asked, want) {
			t.Errorf("asked %q\n want %q", s.asked, want)
		}
		var reported []string
		for _, line := range h.lines() {
			_, line, _ = strings.Cut(line, "msg=")
			reported = append(reported, line)
		}
		if len(reported) != 5 || !strings.Contains(reported[0], "refused") || !strings.Contains(reported[1], "forbidden") ||
			!strings.Contains(reported[2], "again") || !strings.Contains(reported[3], "refused") || !strings.Contains(reported[4], "again") {
			t.Errorf("told:\n%s", strings.Join(reported, "\n"))
		}
	})
}

// An error in a watch is one, and a list that can't be ended changes nothing.
func TestFollowBrokenAnswers(t *testing.T) {
	p := v1.ServicePort{Port: 80}
	in(t, func(h *harness) {
		broken, last := watch.NewFake(), watch.NewFake()
		s := &script{
			lists: []func(metav1.ListOptions) (*v1.ServiceList, error){
				page("7", "", at(newService("shop", "a", "1.1.1.1", p), "3")),
				page("9", "-x", at(newService("shop", "b", "2.2.2.2", p), "9")), failing(apierrors.NewResourceExpired("the token is too old")),
				page("9", "", at(newService("shop", "b", "2.2.2.2", p), "9")),
			},
			watches: []func() (watch.Interface, error){
				func() (watch.Interface, error) { return broken, nil },
				func() (watch.Interface, error) { return last, nil },
			},
		}
		s.on(h)
		h.run()
		broken.Error(&apierrors.NewResourceExpired("too old").ErrStatus)
		time.Sleep(firstPause + firstPause/2)
		see := func(want string) {
			t.Helper()
			if got := hosts(must[[]criconfig.EnvVar](t)(h.Services(podOf("p", "api")))); got != want {
				t.Errorf("there is %q; want %q", got, want)
			}
		}
		see("A=1.1.1.1")
		time.Sleep(time.Minute)
		see("B=2.2.2.2")
	})
}

// A server that is away for long gets a request now and then.
func TestFollowPauses(t *testing.T) {
	in(t, func(h *harness) {
		s := &script{lists: slices.Repeat([]func(metav1.ListOptions) (*v1.ServiceList, error){failing(errors.New("down"))}, 60)}
		s.on(h)
		h.run()
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if n := len(s.asked); n < 25 || n > 42 {
			t.Errorf("in five minutes it was tried %d times", n)
		}
	})
}
