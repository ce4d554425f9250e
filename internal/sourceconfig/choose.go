package sourceconfig

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podstream/podstream/internal/kubeletconfig"
	"github.com/podstream/podstream/internal/kubeletconfig/document"
)

// chosen is the effective configuration.
type chosen struct {
	// drafts are by kind in the default order, within a kind in the order of the configuration.
	drafts       []draft
	nodes, order *list
	strict       bool
	every        map[Kind]time.Duration
	warnings     []string
}

// choose applies the precedence of flags over files.
func choose(f *Flags, kubelet *kubeletconfig.Config, written *collected) (*chosen, error) {
	c := &chosen{nodes: written.nodes, order: written.order, every: map[Kind]time.Duration{
		File: frequency(f, "file-check-frequency", f.fileCheckFrequency, kubelet.FileCheckFrequency.Duration),
		HTTP: frequency(f, "http-check-frequency", f.httpCheckFrequency, kubelet.HTTPCheckFrequency.Duration),
	}}
	files, filesErr := chooseFiles(f, kubelet, written)
	urls, urlsErr := c.chooseURLs(f, kubelet, written)
	artifacts, artifactsErr := c.chooseArtifacts(f, written)
	relays, relaysErr := c.chooseRelays(f, written)
	api := written.drafts[API]
	if f.given("kubeconfig", "in-cluster") {
		api = f.apiDrafts()
	}
	api, idle := f.pinCluster(api)
	c.warnings = append(c.warnings, idle...)
	c.drafts = slices.Concat(files, urls, artifacts, relays, api, chooseApplied(f, written))
	if f.given("nodes") {
		c.nodes = &list{f.nodes, flagPlace("nodes", strings.Join(f.nodes, ","), nil)}
	}
	if f.given("source-order") {
		c.order = &list{f.order, flagPlace("source-order", strings.Join(f.order, ","), nil)}
	}
	switch {
	case f.given("strict-manifests"):
		c.strict = f.strict
	case written.strict != nil:
		c.strict = *written.strict
	}
	return c, errors.Join(f.Check(), filesErr, urlsErr, artifactsErr, relaysErr)
}

func frequency(f *Flags, flag string, value, inFile time.Duration) time.Duration {
	if f.given(flag) || inFile <= 0 {
		return value
	}
	return inFile
}

func chooseFiles(f *Flags, kubelet *kubeletconfig.Config, written *collected) ([]draft, error) {
	if f.given("pod-manifest-path") || !f.given(append(sourceFlags, "config", "config-dir")...) {
		return f.fileDrafts()
	}
	var files []draft
	if kubelet.StaticPodPath != "" {
		files = append(files, draft{kind: File, path: kubelet.StaticPodPath, at: kubeletPlace(kubelet, "staticPodPath")})
	}
	return append(files, written.drafts[File]...), nil
}

func (c *chosen) chooseURLs(f *Flags, kubelet *kubeletconfig.Config, written *collected) ([]draft, error) {
	headers, err := parseHeaders(f.urlHeaders)
	if err != nil {
		return nil, err
	}
	// own are the drafts that the flags of URLs are for.
	var own []draft
	switch {
	case f.given("manifest-url"):
		if own, err = f.urlDrafts(); err != nil {
			return nil, err
		}
		for i := range own {
			own[i].headers = headers.common
		}
	case kubelet.StaticPodURL != "":
		own = []draft{staticPodURL(f, kubelet, headers)}
	}
	c.warnings = append(c.warnings, f.idle("manifest-url", "URL", own)...)
	if len(own) == 0 && len(headers.common) > 0 {
		c.warnings = append(c.warnings, "--manifest-url-header: there is no URL that it is for")
	}
	if f.given("manifest-url") {
		return own, headers.giveNamed(own)
	}
	urls := slices.Concat(own, written.drafts[HTTP])
	// A file may define that name later.
	if absent := headers.giveNamed(urls); absent != nil {
		c.warnings = append(c.warnings, strings.Split(absent.Error(), "\n")...)
	}
	return urls, nil
}

func (c *chosen) chooseArtifacts(f *Flags, written *collected) ([]draft, error) {
	if f.given("oci-artifact") {
		return f.artifactDrafts()
	}
	for _, flag := range artifactFlags {
		if f.given(flag) {
			c.warnings = append(c.warnings, fmt.Sprintf("--%s: there is no --oci-artifact that it is for", flag))
		}
	}
	return written.drafts[OCI], nil
}

func (c *chosen) chooseRelays(f *Flags, written *collected) (relays []draft, err error) {
	if f.given("relay-from") {
		relays, err = f.relayDrafts()
	}
	c.warnings = append(c.warnings, f.idle("relay", "relay", relays)...)
	if f.given("relay-from") {
		return relays, err
	}
	return written.drafts[Relay], nil
}

func chooseApplied(f *Flags, written *collected) []draft {
	enabled := written.applied != nil && *written.applied
	if f.given("applied") {
		enabled = f.applied
	}
	if !enabled {
		return nil
	}
	return []draft{{kind: Applied, at: flagPlace("applied", "", nil)}}
}

// staticPodURL returns the draft of the kubelet's staticPodURL, with the flags that are for it.
func staticPodURL(f *Flags, kubelet *kubeletconfig.Config, headers *headers) draft {
	d := draft{
		kind: HTTP, url: kubelet.StaticPodURL, headers: kubelet.StaticPodURLHeader, tls: f.tlsFor(kubelet.StaticPodURL),
		at: kubeletPlace(kubelet, "staticPodURL"),
		atHeader: func(name, reason string) error {
			return kubelet.MistakeIn(document.Field{"staticPodURLHeader"}, name, reason)
		},
	}
	if len(headers.common) > 0 {
		d.headers = headers.common
	}
	return d
}

// kubeletPlace is a field of the kubelet's configuration, with the others of the same source.
func kubeletPlace(kubelet *kubeletconfig.Config, name string) place {
	return func(field, reason string) error {
		if flag, ok := urlFlags[field]; ok {
			return fmt.Errorf("--%s: %s", flag, reason)
		}
		return kubelet.Mistake(document.Field{name}, reason)
	}
}
