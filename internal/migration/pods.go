package migration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/podstream/podstream/internal/execsvc/decide/adoption"
)

// MaxPods bounds a list of pods, in bytes: that of a file, and all pages of the API server's together.
const MaxPods = 64 << 20

// pageSize is the number of pods that are requested at once.
const pageSize = 500

// readPods reads the node's pods from the file, or else from the API server.
func readPods(ctx context.Context, cfg settled, r *Report) (adoption.Source, error) {
	switch {
	case cfg.Pods != nil:
		list, err := parsePods(cfg.Pods)
		if err != nil {
			return adoption.Source{}, fmt.Errorf("--pods: %w", err)
		}
		pods := pointers(list.Items, cfg.node)
		if len(pods) == 0 && len(list.Items) > 0 {
			return adoption.Source{}, fmt.Errorf("--pods: none of the %d pods is on node %s; --hostname-override sets the node's name", len(list.Items), cfg.node)
		}
		r.PodsFrom = "the list of --pods"
		return adoption.Source{Known: true, Pods: pods}, nil
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
	return adoption.Source{Known: true, Pods: pods}, nil
}

// parsePods reads what kubectl prints, as JSON or YAML.
func parsePods(data []byte) (*v1.PodList, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		converted, err := yaml.YAMLToJSON(data)
		if err != nil {
			return nil, fmt.Errorf("it isn't a list of pods: %w", err)
		}
		if len(converted) > MaxPods {
			return nil, fmt.Errorf("it is larger than %d MiB", MaxPods>>20)
		}
		data = converted
	}
	list := &v1.PodList{}
	if err := json.Unmarshal(data, list); err != nil {
		return nil, fmt.Errorf("it isn't a list of pods: %w", err)
	}
	if list.Kind != "List" && list.Kind != "PodList" {
		return nil, fmt.Errorf("it isn't a list of pods: its kind is %q", list.Kind)
	}
	for i := range list.Items {
		if kind := list.Items[i].Kind; kind != "" && kind != "Pod" {
			return nil, fmt.Errorf("it isn't a list of pods: items[%d] is of kind %q", i, kind)
		}
	}
	return list, nil
}

// listPods asks the API server for the node's pods. It returns its address too.
func listPods(ctx context.Context, cfg settled) (pods []*v1.Pod, server string, err error) {
	config, err := clientcmd.BuildConfigFromFlags("", cfg.Kubeconfig)
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
	left := int64(MaxPods)
	for {
		address := base.JoinPath("/api/v1/pods")
		address.RawQuery = query.Encode()
		page, size, err := getPods(ctx, client, address.String(), left)
		if err != nil {
			return nil, "", fmt.Errorf("the API server at %s: %w", config.Host, err)
		}
		pods, left = append(pods, pointers(page.Items, cfg.node)...), left-size
		if page.Continue == "" {
			return pods, "the API server at " + config.Host, nil
		}
		if len(page.Items) == 0 {
			return nil, "", fmt.Errorf("the API server at %s continues its list with nothing", config.Host)
		}
		query.Set("continue", page.Continue)
	}
}

// getPods requests one page of at most limit bytes, and returns its size too.
func getPods(ctx context.Context, client *http.Client, address string, limit int64) (*v1.PodList, int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, 0, fmt.Errorf("it answers %d %s to the list of the node's pods", response.StatusCode, http.StatusText(response.StatusCode))
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, 0, fmt.Errorf("read its list of pods: %w", err)
	case int64(len(text)) > limit:
		return nil, 0, fmt.Errorf("its list of pods is larger than %d MiB", MaxPods>>20)
	}
	list := &v1.PodList{}
	if err := json.Unmarshal(text, list); err != nil {
		return nil, 0, fmt.Errorf("read its list of pods: %w", err)
	}
	if list.Kind != "PodList" {
		return nil, 0, errors.New("its answer is no PodList")
	}
	return list, int64(len(text)), nil
}
