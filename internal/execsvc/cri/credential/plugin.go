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

	v1 "k8s.io/api/core/v1"
	kubeletv1 "k8s.io/kubelet/config/v1"
	pluginv1 "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"k8s.io/utils/clock"

	"github.com/podstream/podstream/internal/dockerconfig"
	"github.com/podstream/podstream/internal/execsvc/decide/imageaccess"
)

// plugin is one credential provider, with its cached answers.
type plugin struct {
	name     string
	patterns []dockerconfig.Pattern
	// run runs the plugin.
	run func(context.Context, pluginv1.CredentialProviderRequest) (*pluginv1.CredentialProviderResponse, error)
	// tokens is set if the plugin receives tokens of the pods' service accounts, which accounts has.
	tokens   *kubeletv1.ServiceAccountTokenAttributes
	accounts Accounts
	// keep is how long an answer without a duration is cached.
	keep  time.Duration
	clock clock.PassiveClock

	mu      sync.Mutex
	answers map[cacheKey]answer
	// calls are the running calls, by identity.call.
	calls map[string]*call
	// metrics measure the runs of all plugins.
	metrics *metrics
}

// cacheKey is the scope of an answer: a repository, a registry, or everything; and the identity that it is for.
type cacheKey struct {
	kind        pluginv1.PluginCacheKeyType
	name, scope string
}

func keyOf(kind pluginv1.PluginCacheKeyType, repository, scope string) cacheKey {
	switch kind {
	case pluginv1.ImagePluginCacheKeyType:
		return cacheKey{kind, repository, scope}
	case pluginv1.RegistryPluginCacheKeyType:
		registry, _, _ := strings.Cut(repository, "/")
		return cacheKey{kind, registry, scope}
	}
	return cacheKey{kind: kind, scope: scope}
}

// maxAnswers bounds the cached answers: pods have service accounts of their own.
const maxAnswers = 1000

// answer is a plugin's answer, until it expires.
type answer struct {
	logins  []login
	expires time.Time
}

// call is one run of a plugin. All requests for the same repository and identity wait for it.
type call struct {
	done   chan struct{}
	logins []login
	err    error
	// abandoned is set if its caller didn't wait for its end.
	abandoned bool
}

func newPlugin(p kubeletv1.CredentialProvider, cfg Config, m *metrics) (*plugin, error) {
	c := command{
		path: filepath.Join(cfg.PluginDir, p.Name), args: p.Args, env: os.Environ(), apiVersion: p.APIVersion, timeout: time.Minute,
	}
	for _, e := range p.Env {
		c.env = append(c.env, e.Name+"="+e.Value)
	}
	out := &plugin{
		name: p.Name, run: c.run, keep: p.DefaultCacheDuration.Duration, clock: cfg.Clock, tokens: p.TokenAttributes, accounts: cfg.Accounts,
		answers: map[cacheKey]answer{}, calls: map[string]*call{},
		metrics: m,
	}
	for _, text := range p.MatchImages {
		pattern, err := dockerconfig.ParsePattern(text)
		if err != nil {
			return nil, fmt.Errorf("provider %q: matchImages: %w", p.Name, err)
		}
		out.patterns = append(out.patterns, pattern)
	}
	return out, nil
}

func (p *plugin) matches(repository string) bool {
	return slices.ContainsFunc(p.patterns, func(p dockerconfig.Pattern) bool { return p.Matches(repository) })
}

// logins returns the plugin's logins for a repository: the cached answer while it is valid, else the plugin runs.
func (p *plugin) logins(ctx context.Context, pod *v1.Pod, repository string) ([]login, error) {
	who, run, err := p.identify(ctx, pod)
	if err != nil || !run {
		return nil, err
	}
	if who.account != nil {
		if p.tokens.CacheType == kubeletv1.ServiceAccountServiceAccountTokenCacheType {
			// The API server may be away.
			p.mu.Lock()
			known, ok := p.known(repository, who.scope)
			p.mu.Unlock()
			if ok {
				return from(known, who.source()), nil
			}
		}
		if err := p.requestToken(ctx, pod, &who); err != nil {
			return nil, err
		}
	}
	found, err := p.loginsOf(ctx, who, repository)
	return from(found, who.source()), err
}

// from returns the logins with an account as their origin. Nil: they are for all pods.
func from(logins []login, account *imageaccess.Account) []login {
	logins = slices.Clone(logins)
	for i := range logins {
		logins[i].account = account
	}
	return logins
}

func (p *plugin) loginsOf(ctx context.Context, who identity, repository string) ([]login, error) {
	key := who.call(repository)
	for {
		p.mu.Lock()
		if known, ok := p.known(repository, who.scope); ok {
			p.mu.Unlock()
			return known, nil
		}
		c, ok := p.calls[key]
		if !ok {
			c = &call{done: make(chan struct{})}
			p.calls[key] = c
			p.mu.Unlock()
			p.ask(ctx, who, repository, c)
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
func (p *plugin) known(repository, scope string) ([]login, bool) {
	now := p.clock.Now()
	for _, kind := range []pluginv1.PluginCacheKeyType{
		pluginv1.ImagePluginCacheKeyType, pluginv1.RegistryPluginCacheKeyType, pluginv1.GlobalPluginCacheKeyType,
	} {
		if a, ok := p.answers[keyOf(kind, repository, scope)]; ok && now.Before(a.expires) {
			return a.logins, true
		}
	}
	return nil, false
}

// ask runs the plugin, and caches its answer.
func (p *plugin) ask(ctx context.Context, who identity, repository string, c *call) {
	began := time.Now()
	response, err := p.run(ctx, who.request(repository))
	if err == nil && p.echoes(who, response) {
		err = errEchoed
	}
	if err == nil {
		c.logins, err = p.read(response)
	}
	p.metrics.ran(p.name, began, err)
	c.err, c.abandoned = err, ctx.Err() != nil
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.calls, who.call(repository))
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
	if keep <= 0 {
		return
	}
	if len(p.answers) >= maxAnswers {
		clear(p.answers)
	}
	p.answers[keyOf(response.CacheKeyType, repository, who.scope)] = answer{c.logins, now.Add(keep)}
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
		pattern, err := dockerconfig.ParsePattern(text)
		if err != nil {
			return nil, errors.New("a key of its auth is no image")
		}
		out = append(out, login{pattern: pattern, username: response.Auth[text].Username, password: response.Auth[text].Password})
	}
	return out, nil
}
