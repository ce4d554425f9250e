package credential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	kubeletv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"
)

// plugin is one credential provider, with its cached answers.
type plugin struct {
	name     string
	patterns []pattern
	// run runs the plugin.
	run func(ctx context.Context, repository string) (*pluginv1.CredentialProviderResponse, error)
	// keep is how long an answer without a duration is cached.
	keep  time.Duration
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[cacheKey]answer
	// calls are the running calls, by repository.
	calls map[string]*call
}

// cacheKey is the scope of an answer: a repository, a registry, or everything.
type cacheKey struct {
	kind pluginv1.PluginCacheKeyType
	name string
}

func keyOf(kind pluginv1.PluginCacheKeyType, repository string) cacheKey {
	switch kind {
	case pluginv1.ImagePluginCacheKeyType:
		return cacheKey{kind, repository}
	case pluginv1.RegistryPluginCacheKeyType:
		registry, _, _ := strings.Cut(repository, "/")
		return cacheKey{kind, registry}
	}
	return cacheKey{kind: kind}
}

// answer is a plugin's answer, until it expires.
type answer struct {
	logins  []login
	expires time.Time
}

// call is one run of a plugin. All requests for the same repository wait for it.
type call struct {
	done   chan struct{}
	logins []login
	err    error
	// abandoned is set if its caller didn't wait for its end.
	abandoned bool
}

func newPlugin(p kubeletv1.CredentialProvider, cfg Config) (*plugin, error) {
	c := command{
		path: filepath.Join(cfg.PluginDir, p.Name), args: p.Args, env: os.Environ(), apiVersion: p.APIVersion, timeout: time.Minute,
	}
	for _, e := range p.Env {
		c.env = append(c.env, e.Name+"="+e.Value)
	}
	out := &plugin{
		name: p.Name, run: c.run, keep: p.DefaultCacheDuration.Duration, clock: cfg.Clock,
		answers: map[cacheKey]answer{}, calls: map[string]*call{},
	}
	for _, text := range p.MatchImages {
		pattern, err := parsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("provider %q: matchImages: %w", p.Name, err)
		}
		out.patterns = append(out.patterns, pattern)
	}
	return out, nil
}

func (p *plugin) matches(repository string) bool {
	return slices.ContainsFunc(p.patterns, func(pattern pattern) bool { return pattern.matches(repository) })
}

// logins returns the plugin's logins for a repository: the cached answer while it is valid, else the plugin runs.
func (p *plugin) logins(ctx context.Context, repository string) ([]login, error) {
	for {
		p.mu.Lock()
		if known, ok := p.known(repository); ok {
			p.mu.Unlock()
			return known, nil
		}
		c, ok := p.calls[repository]
		if !ok {
			c = &call{done: make(chan struct{})}
			p.calls[repository] = c
			p.mu.Unlock()
			p.ask(ctx, repository, c)
			return c.logins, c.err
		}
		p.mu.Unlock()
		select {
		case <-c.done:
			if !c.abandoned {
				return c.logins, c.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// known returns the cached answer if it is valid. The caller holds the lock.
func (p *plugin) known(repository string) ([]login, bool) {
	now := p.clock.Now()
	for _, kind := range []pluginv1.PluginCacheKeyType{
		pluginv1.ImagePluginCacheKeyType, pluginv1.RegistryPluginCacheKeyType, pluginv1.GlobalPluginCacheKeyType,
	} {
		if a, ok := p.answers[keyOf(kind, repository)]; ok && now.Before(a.expires) {
			return a.logins, true
		}
	}
	return nil, false
}

// ask runs the plugin, and caches its answer.
func (p *plugin) ask(ctx context.Context, repository string, c *call) {
	response, err := p.run(ctx, repository)
	if err == nil {
		c.logins, err = p.read(response)
	}
	c.err, c.abandoned = err, ctx.Err() != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, repository)
	close(c.done)
	if err != nil {
		return
	}
	keep := p.keep
	if response.CacheDuration != nil {
		keep = response.CacheDuration.Duration
	}
	now := p.clock.Now()
	maps.DeleteFunc(p.answers, func(_ cacheKey, a answer) bool { return !now.Before(a.expires) })
	if keep > 0 {
		p.answers[keyOf(response.CacheKeyType, repository)] = answer{c.logins, now.Add(keep)}
	}
}

// read returns the logins of an answer.
func (p *plugin) read(response *pluginv1.CredentialProviderResponse) ([]login, error) {
	switch response.CacheKeyType {
	case pluginv1.ImagePluginCacheKeyType, pluginv1.RegistryPluginCacheKeyType, pluginv1.GlobalPluginCacheKeyType:
	default:
		return nil, fmt.Errorf("its cacheKeyType %q must be Image, Registry or Global", response.CacheKeyType)
	}
	var out []login
	for _, text := range slices.Sorted(maps.Keys(response.Auth)) {
		pattern, err := parsePattern(text)
		if err != nil {
			return nil, errors.New("a key of its auth is no image")
		}
		out = append(out, login{pattern, response.Auth[text].Username, response.Auth[text].Password})
	}
	return out, nil
}
