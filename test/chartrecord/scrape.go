package main

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/podstream/podstream/test/devnode"
)

// Scrape is the answer of one target at one time.
type Scrape struct {
	// Agent is podstream or kubelet.
	Agent string `json:"agent"`
	// Job and Path are the labels job and metrics_path of the series.
	Job  string `json:"job"`
	Path string `json:"path"`
	// At is the time of the scrape, in milliseconds since 1970. Seconds is how long it took.
	At      int64   `json:"at"`
	Seconds float64 `json:"seconds"`
	Body    string  `json:"body"`
}

// scrapeTime bounds a scrape.
const scrapeTime = 20 * time.Second

// maxBody bounds an answer.
const maxBody = 32 << 20

// target is a path that is scraped.
type target struct{ job, path, url string }

// scraper scrapes the node's agent, which is in the node's network, and podconfigd, which isn't.
type scraper struct{ inside, outside *http.Client }

func newScraper(node *devnode.Node) *scraper {
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = node.InNetwork(func() error {
			var d net.Dialer
			conn, err = d.DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true}
	return &scraper{
		inside:  &http.Client{Transport: transport, Timeout: scrapeTime},
		outside: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: scrapeTime},
	}
}

// get returns the body of an answer.
func (s *scraper) get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	client := s.outside
	if strings.HasPrefix(url, readOnly) {
		client = s.inside
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", url, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %.200s", url, resp.Status, data)
	}
	return data, nil
}

// scrape scrapes all targets once.
func (s *scraper) scrape(ctx context.Context, agent string, targets []target) ([]Scrape, error) {
	var out []Scrape
	for _, t := range targets {
		began := time.Now()
		data, err := s.get(ctx, t.url)
		if err != nil {
			return nil, err
		}
		out = append(out, Scrape{agent, t.job, t.path, began.UnixMilli(), time.Since(began).Seconds(), string(data)})
	}
	return out, nil
}

// write writes a recording. The file has no time of its own, so that it depends on the scrapes alone.
func write(name string, all []Scrape) (err error) {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(zip)
	lines.SetEscapeHTML(false)
	for _, s := range all {
		if err := lines.Encode(s); err != nil {
			return err
		}
	}
	return zip.Close()
}
