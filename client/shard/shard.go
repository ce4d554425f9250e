// Package shard divides the nodes of a cluster between several gateways. A gateway and its consumers compute the same
// division, each by itself. It has no goroutines, and stores nothing.
package shard

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
)

// Max is how many shards there may be.
const Max = 1024

// Of returns the shard of a node, from 0 to shards-1. With one shard more, only as many nodes get another shard as the new one
// has. It is a jump consistent hash (Lamping and Veach, 2014) of the name's 64-bit FNV-1a hash, which will not change.
func Of(node string, shards int) int {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(node)) // It returns no error.
	key := hash.Sum64()
	at, next := int64(-1), int64(0)
	for next < int64(shards) {
		at = next
		key = key*2862933555777941757 + 1
		next = int64(float64(at+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(max(at, 0))
}

const begins, ends = "{shard/", "}"

// Expand returns the endpoint with the number of the node's shard in place of each {shard/N}, of which N is the number of
// shards: tcp://gateway-{shard/4}:9443 is tcp://gateway-0:9443 to tcp://gateway-3:9443. An endpoint without it is returned as it is.
func Expand(endpoint, node string) (string, error) {
	before, rest, found := strings.Cut(endpoint, begins)
	if !found {
		return endpoint, nil
	}
	text, after, ended := strings.Cut(rest, ends)
	shards, err := strconv.Atoi(text)
	switch {
	case !ended || err != nil || shards < 1 || shards > Max:
		return "", fmt.Errorf("want {shard/N}, N from 1 to %d", Max)
	case node == "":
		return "", errors.New("{shard/N} needs the name of one node")
	}
	after, err = Expand(after, node)
	return before + strconv.Itoa(Of(node, shards)) + after, err
}
