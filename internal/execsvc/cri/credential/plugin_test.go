package credential

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podstream/podstream/internal/metrictest"
)

// providers returns a configuration of plugins, each "NAME" for all of *.io.
func providers(names ...string) string {
	text := "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
	for _, name := range names {
		text += "- name: " + name + "\n  matchImages: ['*.io', 'docker.io']\n  defaultCacheDuration: 10m\n" +
			"  apiVersion: credentialprovider.kubelet.k8s.io/v1\n  args: [one, two]\n  env: [{name: GREETING, value: hello}]\n"
	}
	return text
}

// script creates a plugin that counts its runs in a file beside it, and runs body with the request in $request.
func script(t *testing.T, dir, name, body string) {
	t.Helper()
	write(t, filepath.Join(dir, name), "#!/bin/sh\necho run >>\"$0.runs\"\nread -r request\n"+body, 0o700)
}

func runs(t *testing.T, dir, name string) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name+".runs"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(data), "run")
}

// answering returns a script's body that answers with these fields.
func answering(fields string) string {
	return `echo '{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1",` + fields + "}'\n"
}

// TestPlugin: the protocol, with a program that checks its input.
func TestPlugin(t *testing.T) {
	dir := t.TempDir()
	script(t, dir, "good", `want='{"kind":"CredentialProviderRequest","apiVersion":"credentialprovider.kubelet.k8s.io/v1","image":"quay.io/team/app"}'
if [ "$request" != "$want" ] || [ "$*" != "one two" ] || [ "$GREETING" != hello ] || [ -z "$PATH" ]; then
	echo "given $request, $*, $GREETING" >&2
	exit 1
fi
`+answering(`"cacheKeyType":"Image","auth":{"quay.io":{"username":"wide"},"quay.io/team":{"username":"narrow"},"other.io":{"username":"x"}}`))
	script(t, dir, "failing", "echo hunter2; echo 'no network' >&2; exit 3\n")
	config := write(t, filepath.Join(dir, "config.yaml"), providers("failing", "good", "absent"), 0o600)
	var log strings.Builder
	registry := prometheus.NewRegistry()
	k, err := New(Config{PluginConfig: config, PluginDir: dir, Metrics: registry, Logger: textLogger(&log)})
	if err != nil {
		t.Fatal(err)
	}
	if got := users(k, pod(), "quay.io/team/app"); got != "narrow wide" {
		t.Errorf("pulled as %q; want the narrower first", got)
	}
	metrictest.Want(t, registry, map[string]float64{
		"kubelet_credential_provider_plugin_duration{plugin_name=good}": 1, "kubelet_credential_provider_plugin_errors_total{plugin_name=good}": 0,
		"kubelet_credential_provider_plugin_errors_total{plugin_name=failing}": 1, "kubelet_credential_provider_plugin_errors_total{plugin_name=absent}": 1,
	})
	for _, want := range []string{"provider=failing", "exit status 3: no network", "provider=absent", "no such file"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, &log)
		}
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log has what a plugin answered:\n%s", &log)
	}
	if got := users(k, pod(), "quay.com/app"); got != "" || runs(t, dir, "good") != 1 {
		t.Errorf("for an image that it isn't for it was run: %q, %d runs", got, runs(t, dir, "good"))
	}
}

// TestPluginCache: the scope of an answer, and how long it is cached.
func TestPluginCache(t *testing.T) {
	for _, tc := range []struct {
		fields string
		// runs are after: two lookups of one image, another of the registry, one of another, and the first again 9 and
		// 11 minutes later.
		runs [5]int
	}{
		{`"cacheKeyType":"Image"`, [5]int{1, 2, 3, 3, 4}},
		{`"cacheKeyType":"Registry"`, [5]int{1, 1, 2, 2, 3}},
		{`"cacheKeyType":"Global"`, [5]int{1, 1, 1, 1, 2}},
		{`"cacheKeyType":"Global","cacheDuration":"1h"`, [5]int{1, 1, 1, 1, 1}},
		{`"cacheKeyType":"Global","cacheDuration":"0s"`, [5]int{2, 3, 4, 5, 6}},
		{`"cacheKeyType":"Else"`, [5]int{2, 3, 4, 5, 6}},
	} {
		t.Run(tc.fields, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir, "p", answering(tc.fields+`,"auth":{"*.io":{"username":"me"}}`))
			config := write(t, filepath.Join(dir, "config.yaml"), providers("p"), 0o600)
			clock := testingclock.NewFakeClock(time.Unix(1_000_000, 0))
			k, err := New(Config{PluginConfig: config, PluginDir: dir, Clock: clock})
			if err != nil {
				t.Fatal(err)
			}
			want := "me"
			if strings.Contains(tc.fields, "Else") {
				want = ""
			}
			var got [5]int
			look := func(i int, repository string) {
				t.Helper()
				if user := users(k, pod(), repository); user != want {
					t.Errorf("%s is pulled as %q", repository, user)
				}
				got[i] = runs(t, dir, "p")
			}
			look(0, "quay.io/app")
			look(0, "quay.io/app")
			look(1, "quay.io/other")
			look(2, "gcr.io/app")
			clock.Step(9 * time.Minute)
			look(3, "quay.io/app")
			clock.Step(2 * time.Minute)
			look(4, "quay.io/app")
			if got != tc.runs {
				t.Errorf("runs %v; want %v", got, tc.runs)
			}
		})
	}
}

// TestBadAnswers: each is an error that doesn't show the plugin's output, however long it is.
func TestBadAnswers(t *testing.T) {
	v1 := "credentialprovider.kubelet.k8s.io/v1"
	for _, tc := range []struct{ name, body, want string }{
		{"no JSON", "echo hunter2\n", "no CredentialProviderResponse"},
		{"another version", strings.ReplaceAll(answering(`"cacheKeyType":"Image"`), v1, v1+"beta1"), "must be a CredentialProviderResponse of " + v1},
		{"another kind", "echo '{\"kind\":\"Hunter2\",\"apiVersion\":\"" + v1 + "\"}'\n", "must be a CredentialProviderResponse"},
		{"nothing", "", "no CredentialProviderResponse"},
		{"too much", "while :; do echo hunter2hunter2hunter2hunter2hunter2hunter2; done | head -c 2000000\n", "larger than"},
		{"no end", "sleep 1000 & wait\n", "no answer within 100ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			script(t, dir, "p", tc.body)
			c := command{path: filepath.Join(dir, "p"), apiVersion: v1, timeout: deadline}
			if tc.name == "no end" {
				c.timeout = 100 * time.Millisecond
			}
			_, err := c.run(t.Context(), pluginv1.CredentialProviderRequest{Image: "quay.io/app"})
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v; want an error with %q", err, tc.want)
			}
		})
	}
}

const deadline = 30 * time.Second

// TestSharedCall: concurrent requests for the same run the plugin once. If the caller that runs it is cancelled,
// another one does.
func TestSharedCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := newPlugin(kubeletv1.CredentialProvider{Name: "p", DefaultCacheDuration: &metav1.Duration{}}, Config{}, newMetrics(nil))
		if err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		count := 0
		p.run = func(ctx context.Context, _ pluginv1.CredentialProviderRequest) (*pluginv1.CredentialProviderResponse, error) {
			mu.Lock()
			count++
			user := fmt.Sprint("run", count)
			mu.Unlock()
			select {
			case <-time.After(time.Second):
				return &pluginv1.CredentialProviderResponse{
					CacheKeyType: pluginv1.ImagePluginCacheKeyType, CacheDuration: &metav1.Duration{},
					Auth: map[string]pluginv1.AuthConfig{"quay.io": {Username: user}},
				}, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		p.clock = testingclock.NewFakePassiveClock(time.Now())
		var wg sync.WaitGroup
		ask := func(ctx context.Context, repository, want string) {
			wg.Go(func() {
				got := "error"
				if found, err := p.logins(ctx, pod(), repository); err == nil {
					got = found[0].username
				}
				if got != want {
					t.Errorf("%s: %s; want %s", repository, got, want)
				}
			})
			synctest.Wait()
		}
		for range 3 {
			ask(t.Context(), "quay.io/app", "run1")
		}
		ask(t.Context(), "quay.io/other", "run2")
		wg.Wait()

		first, cancel := context.WithCancel(t.Context())
		ask(first, "quay.io/app", "error")
		second, cancelSecond := context.WithCancel(t.Context())
		ask(second, "quay.io/app", "error")
		ask(t.Context(), "quay.io/app", "run4")
		cancelSecond()
		cancel()
		wg.Wait()
	})
}
