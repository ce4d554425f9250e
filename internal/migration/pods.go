package migration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/manifest"
	"github.com/podstream/podstream/internal/openfile"
)

const (
	// pageSize is the number of pods that are requested at once.
	pageSize = 500
	// maxPages and maxContinue are the maximum number of pages, and the maximum size of the token of the next one, in bytes.
	maxPages, maxContinue = 1000, 16 << 10
	// maxYAML and maxMarks are the maximum size of a list in YAML, in bytes, and of the characters in it that may begin a value: the
	// whole text is converted at once, and a value takes some hundred bytes.
	maxYAML, maxMarks = 8 << 20, 1 << 20
	// maxKubeconfig is the maximum size of a kubeconfig, in bytes.
	maxKubeconfig = 1 << 20
)

// readPods reads the node's pods from the file, or else from the API server.
func readPods(ctx context.Context, cfg settled, r *Report) (adoption.Source, error) {
	switch {
	case cfg.Pods != nil:
		list, err := parsePods(ctx, cfg.Pods, cfg.node)
		if err != nil {
			return adoption.Source{}, fmt.Errorf("--pods: %w", err)
		}
		if len(list.kept) == 0 && list.items > 0 {
			return adoption.Source{}, fmt.Errorf("--pods: none of the %d pods is on node %s; --hostname-override sets the node's name", list.items, cfg.node)
		}
		r.PodsFrom = "the list of --pods"
		return accept(ctx, list.kept, r)
	case cfg.Kubeconfig == "":
		r.note("the node's pods aren't known, as there is no kubeconfig: the plan of API pods is by their sandboxes alone")
		return adoption.Source{}, nil
	}
	pods, server, err := listPods(ctx, cfg)
	switch {
	case err != nil && cfg.KubeconfigGiven:
		return adoption.Source{}, fmt.Errorf("the node's pods: %w", err)
	case err != nil:
		r.note("the node's pods aren't known, so the plan of API pods is by their sandboxes alone: %v", err)
		return adoption.Source{}, nil
	}
	r.PodsFrom = server
	return accept(ctx, pods, r)
}

// accept returns the pods that podconfigd accepts. The source is held if it rejects one.
func accept(ctx context.Context, pods []*v1.Pod, r *Report) (adoption.Source, error) {
	out, problems := adoption.Source{Known: true}, 0
	for _, p := range pods {
		if ctx.Err() != nil {
			return adoption.Source{}, context.Cause(ctx)
		}
		if p.Namespace == "" || p.Name == "" || p.UID == "" {
			continue
		}
		origin := manifest.Received(podmeta.LogName(p), p)
		for _, accepted := range origin.Pods {
			out.Pods = append(out.Pods, accepted.Pod)
		}
		out.Held = out.Held || origin.Held
		for _, f := range origin.Findings {
			if f.Severity != manifest.Error {
				continue
			}
			if problems++; problems <= maxFindings {
				r.note("podconfigd rejects a pod: %s", describe(origin.Name, f))
			}
		}
	}
	if problems > maxFindings {
		r.note("podconfigd rejects pods for %d further reasons", problems-maxFindings)
	}
	return out, nil
}

// parsePods reads what kubectl prints, as JSON or YAML.
func parsePods(ctx context.Context, data []byte, node string) (*podList, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		if len(data) > maxYAML || marks(data) > maxMarks {
			return nil, fmt.Errorf("it is larger than %d MiB of YAML, or has more than %d values: use -o json", maxYAML>>20, maxMarks)
		}
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil, fmt.Errorf("it isn't a list of pods: %w", err)
		}
		data = converted
	}
	list := newPodList(node)
	page, err := list.read(ctx, bytes.NewReader(data))
	switch {
	case err != nil:
		return nil, fmt.Errorf("it isn't a list of pods: %w", err)
	case page.kind != "List" && page.kind != "PodList":
		return nil, fmt.Errorf("it isn't a list of pods: its kind is %.40q", page.kind)
	}
	return list, nil
}

// marks returns the number of characters that may begin a value of a YAML text.
func marks(data []byte) int {
	count := 0
	for _, c := range data {
		switch c {
		case ',', ':', '-', '?', '[', '{':
			count++
		}
	}
	return count
}

// listPods asks the API server for the node's pods. It returns its address too.
func listPods(ctx context.Context, cfg settled) (pods []*v1.Pod, server string, err error) {
	config, err := readKubeconfig(ctx, cfg.Kubeconfig)
	if err != nil {
		return nil, "", err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, "", err
	}
	// Plain HTTP: client-go's clientset, with the types of every API, would double podctl's size.
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, "", err
	}
	defer client.CloseIdleConnections()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	query := url.Values{"fieldSelector": {"spec.nodeName=" + cfg.node}, "limit": {strconv.Itoa(pageSize)}}
	list := newPodList(cfg.node)
	for range maxPages {
		address := base.JoinPath("/api/v1/pods")
		address.RawQuery = query.Encode()
		page, err := getPods(ctx, client, address.String(), list)
		switch {
		case err != nil:
		case page.next == "":
			return list.kept, "the API server at " + config.Host, nil
		case page.items == 0:
			err = errors.New("it continues its list with nothing")
		case len(page.next) > maxContinue:
			err = errors.New("its token for the rest of the list is too long")
		}
		if err != nil {
			return nil, "", fmt.Errorf("the API server at %s: %w", config.Host, err)
		}
		query.Set("continue", page.next)
	}
	return nil, "", fmt.Errorf("the API server at %s: its list has more than %d pages", config.Host, maxPages)
}

// readKubeconfig reads a kubeconfig. A relative path in it is relative to its directory.
func readKubeconfig(ctx context.Context, path string) (*rest.Config, error) {
	data, err := openfile.Read(ctx, path, maxKubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		// The error may quote a secret.
		return nil, fmt.Errorf("%s isn't a kubeconfig", path)
	}
	for _, c := range config.Clusters {
		c.LocationOfOrigin = path
	}
	for _, u := range config.AuthInfos {
		u.LocationOfOrigin = path
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return clientcmd.NewDefaultClientConfig(*config, &clientcmd.ConfigOverrides{}).ClientConfig()
}

// getPods requests one page, and adds its pods to the list.
func getPods(ctx context.Context, client *http.Client, address string, list *podList) (page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return page{}, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return page{}, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return page{}, fmt.Errorf("it answers %d %s to the list of the node's pods", response.StatusCode, http.StatusText(response.StatusCode))
	}
	out, err := list.read(ctx, response.Body)
	switch {
	case err != nil:
		return page{}, fmt.Errorf("read its list of pods: %w", err)
	case out.kind != "PodList":
		return page{}, errors.New("its answer is no PodList")
	}
	return out, nil
}
