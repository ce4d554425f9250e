package handler

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/podstream/podstream/internal/execsvc/pod/events"
	"github.com/podstream/podstream/internal/metrictest"
)

func httpHook(action v1.HTTPGetAction) *v1.LifecycleHandler {
	action.Port = web
	return &v1.LifecycleHandler{HTTPGet: &action}
}

func TestExecHook(t *testing.T) {
	failed := errors.New("command 'sh' exited with 1")
	for _, want := range []error{nil, failed} {
		fake := &fakeExecer{err: want}
		hook := &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "$(A)"}}}
		if err := New(Config{Runtime: fake}).Hook(t.Context(), Target{ContainerID: "c1"}, hook); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if fake.id != "c1" || fake.timeout != 0 || fake.cmd[1] != "$(A)" {
			t.Errorf("ran %q in %s within %v", fake.cmd, fake.id, fake.timeout)
		}
	}
}

func TestHTTPHookSucceedsOnceThereIsAnAnswer(t *testing.T) {
	var agent string
	target := serve(t, plain, func(w http.ResponseWriter, r *http.Request) {
		agent = r.UserAgent()
		w.WriteHeader(http.StatusInternalServerError)
	})
	r := New(Config{Version: "1.37"})
	if err := r.Hook(t.Context(), target, httpHook(v1.HTTPGetAction{Path: "/"})); err != nil {
		t.Error(err)
	}
	if agent != "kube-lifecycle/1.37" {
		t.Errorf("User-Agent %q", agent)
	}
	if err := r.Hook(t.Context(), targetAt(t, closedPort(t)), httpHook(v1.HTTPGetAction{Path: "/"})); err == nil {
		t.Error("no error without an answer")
	}
	if err := r.Hook(t.Context(), Target{PodIP: "127.0.0.1"}, httpHook(v1.HTTPGetAction{})); err == nil {
		t.Error("no error for a port that the container hasn't got")
	}
}

func TestHTTPSHookFallsBackToHTTPWithoutCredentials(t *testing.T) {
	var got http.Header
	target := serve(t, plain, func(_ http.ResponseWriter, r *http.Request) { got = r.Header })
	recorder, registry := events.New(events.Config{}), prometheus.NewRegistry()
	err := New(Config{Events: recorder, Metrics: registry}).Hook(t.Context(), target, httpHook(v1.HTTPGetAction{
		Scheme: v1.URISchemeHTTPS, HTTPHeaders: []v1.HTTPHeader{{Name: "Authorization", Value: "Bearer x"}, {Name: "X-A", Value: "1"}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	if got.Get("X-A") != "1" || got.Get("Authorization") != "" {
		t.Errorf("headers %v", got)
	}
	if list, _, _ := recorder.After(0); len(list) != 1 || list[0].Reason != fallbackReason || list[0].Type != events.Warning {
		t.Errorf("events: %+v", list)
	}
	metrictest.Want(t, registry, map[string]float64{"kubelet_lifecycle_handler_http_fallbacks_total": 1})
}

func TestHTTPSHookVerifiesNothing(t *testing.T) {
	target := serve(t, withTLS, func(http.ResponseWriter, *http.Request) {})
	if err := New(Config{}).Hook(t.Context(), target, httpHook(v1.HTTPGetAction{Scheme: v1.URISchemeHTTPS})); err != nil {
		t.Error(err)
	}
}

func TestTCPHook(t *testing.T) {
	hook := &v1.LifecycleHandler{TCPSocket: &v1.TCPSocketAction{Port: web}}
	if err := New(Config{}).Hook(t.Context(), targetAt(t, listen(t, "127.0.0.1:0").Addr().String()), hook); err != nil {
		t.Error(err)
	}
	if err := New(Config{}).Hook(t.Context(), targetAt(t, closedPort(t)), hook); err == nil {
		t.Error("no error without a listener")
	}
}

func TestSleepHook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		r, begin := New(Config{Metrics: registry}), time.Now()
		hook := &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 30}}
		if err := r.Hook(t.Context(), Target{}, hook); err != nil || time.Since(begin) != 30*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := r.Hook(ctx, Target{}, hook)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) != 40*time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
		metrictest.Want(t, registry, map[string]float64{"kubelet_sleep_action_terminated_early_total": 1})
	})
}

func TestHookWithoutHandlerIsAnError(t *testing.T) {
	if err := New(Config{}).Hook(t.Context(), Target{}, &v1.LifecycleHandler{}); err == nil || strings.Contains(err.Error(), "<nil>") {
		t.Errorf("got %v", err)
	}
}
