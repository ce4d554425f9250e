package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// errUnauthorized is the API server's answer to a caller that it can't authenticate.
var errUnauthorized = errors.New("the API server answers 401 Unauthorized")

// identity asks the API server for the user of the node's credentials.
func (e *examination) identity(ctx context.Context, config *rest.Config) Finding {
	user, err := selfReview(ctx, config)
	switch {
	case errors.Is(err, errUnauthorized):
		return Finding{"credentials", Failed, "the API server rejects the node's credentials: " + err.Error(),
			"see the checks certificates and clock; without a good certificate podexecd requests one with --bootstrap-kubeconfig"}
	case err != nil:
		return Finding{"credentials", Failed, fmt.Sprintf("the API server at %s: %v", config.Host, err),
			"see whether this host reaches it, and whether the CA in the kubeconfig is its own"}
	}
	if want := "system:node:" + e.Podexec.Node; user.Username != want || !slices.Contains(user.Groups, "system:nodes") {
		return Finding{"credentials", Warning, fmt.Sprintf("the API server at %s authenticates this node as %s; the node authorizer admits %s in system:nodes only", config.Host, user.Username, want),
			"give it a certificate of that name, or the rights of deploy/rbac.yaml; --hostname-override sets the node's name"}
	}
	return Finding{"credentials", OK, fmt.Sprintf("the API server at %s authenticates this node as %s", config.Host, user.Username), ""}
}

// selfSubjectReview is the part that doctor reads of SelfSubjectReview of authentication.k8s.io/v1. The package of that API would
// make podctl larger.
type selfSubjectReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Status     struct {
		UserInfo userInfo `json:"userInfo"`
	} `json:"status"`
}

// userInfo is the part that doctor reads of UserInfo.
type userInfo struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// selfReview asks the API server for the caller's user. It uses plain HTTP: client-go's clientset, with the types of
// every API, would double podctl's size.
func selfReview(ctx context.Context, config *rest.Config) (userInfo, error) {
	body, err := json.Marshal(&selfSubjectReview{APIVersion: "authentication.k8s.io/v1", Kind: "SelfSubjectReview"})
	if err != nil {
		return userInfo{}, err
	}
	response, err := call(ctx, config, http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", body)
	if err != nil {
		return userInfo{}, err
	}
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return userInfo{}, errUnauthorized
	case response.StatusCode/100 != 2:
		return userInfo{}, fmt.Errorf("POST selfsubjectreviews is answered %s", response.Status)
	}
	var review selfSubjectReview
	if err := json.Unmarshal(response.body, &review); err != nil {
		return userInfo{}, fmt.Errorf("read the API server's answer: %w", err)
	}
	return review.Status.UserInfo, nil
}

// serverTime returns the API server's time.
func (e *examination) serverTime(ctx context.Context) (time.Time, error) {
	config, err := clientcmd.BuildConfigFromFlags("", e.Podexec.Settings.Kubeconfig)
	if err != nil {
		return time.Time{}, err
	}
	response, err := call(ctx, config, http.MethodGet, "/version", nil)
	if err != nil {
		return time.Time{}, err
	}
	return http.ParseTime(response.Header.Get("Date"))
}

// answer is a response whose body has been read.
type answer struct {
	*http.Response
	body []byte
}

// maxAnswer is the maximum number of bytes that are read of an answer.
const maxAnswer = 1 << 20

// call makes one request to the API server.
func call(ctx context.Context, config *rest.Config, method, path string, body []byte) (answer, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return answer{}, err
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return answer{}, err
	}
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Accept", "application/json")
	if len(body) > 0 {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return answer{}, fmt.Errorf("read the API server's answer: %w", err)
	}
	return answer{response, text}, nil
}
