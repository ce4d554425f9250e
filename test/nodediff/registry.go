//go:build kubelet

package nodediff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"

	"github.com/podstream/podstream/test/devnode"
)

// startHub starts a registry that has the sample image, and gives it to no request without the password. It has static
// pods too, for all.
func startHub(ctx context.Context, sample string) (*httptest.Server, error) {
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", hub)
	if err != nil {
		return nil, err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == twinsPath {
			fmt.Fprint(w, twins())
			return
		}
		if user, password, _ := r.BasicAuth(); user != hubUser || password != hubPassword {
			w.Header().Set("WWW-Authenticate", `Basic realm="hub"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	server.Listener = listener
	server.Start()
	if err := push(ctx, server.Client(), sample); err != nil {
		server.Close()
		return nil, err
	}
	return server, nil
}

// push uploads the sample image.
func push(ctx context.Context, client *http.Client, sample string) error {
	image, err := devnode.BuildSampleImage(sample)
	if err != nil {
		return err
	}
	// Another image than the preloaded one: a runtime that removes an image removes all its names.
	if image, err = mutate.CreatedAt(image, v1.Time{Time: time.Unix(1, 0)}); err != nil {
		return err
	}
	put := func(path, kind string, content io.Reader) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodPut, "http://"+hub+"/v2/private/app/"+path, content)
		if err != nil {
			return err
		}
		req.SetBasicAuth(hubUser, hubPassword)
		req.Header.Set("Content-Type", kind)
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusCreated {
			return fmt.Errorf("put %s: %s", path, resp.Status)
		}
		return nil
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		if err := put("blobs/uploads/1?digest="+digest.String(), "application/octet-stream", content); err != nil {
			return err
		}
	}
	config, err := image.RawConfigFile()
	digest, err2 := image.ConfigName()
	manifest, err3 := image.RawManifest()
	kind, err4 := image.MediaType()
	if err := errors.Join(err, err2, err3, err4); err != nil {
		return err
	}
	return errors.Join(put("blobs/uploads/1?digest="+digest.String(), "application/octet-stream", bytes.NewReader(config)),
		put("manifests/v1", string(kind), bytes.NewReader(manifest)))
}

// twins are two static pods of one name.
func twins() string {
	one := fmt.Sprintf(staticPod, "twin")
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "PodList", "items": [%s, %s]}`, one, strings.ReplaceAll(one, "sleep", "pause"))
}
