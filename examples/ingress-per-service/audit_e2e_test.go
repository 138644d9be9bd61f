//go:build e2e

package main_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"time"

	. "github.com/onsi/gomega"
)

// auditPolicy records every write of an Ingress, once it is answered.
const auditPolicy = `
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [create, update, patch, delete]
    resources: [{group: networking.k8s.io, resources: [ingresses]}]
  - level: None
`

// A record is what the API server says about a write.
type record struct {
	Verb string `json:"verb"`
	User struct {
		Username string              `json:"username"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	Object struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

// writer is the token that the write was made with: each replica has its own.
func (r *record) writer() string {
	id := r.User.Extra["authentication.kubernetes.io/credential-id"]
	Expect(id).To(HaveLen(1))
	return id[0]
}

func (r *record) good() bool { return r.Response.Code < http.StatusBadRequest }

// recordsOf are the writes of an account, in the order in which they came.
func recordsOf(path, username string) []record {
	log, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	var all []record
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // it is being written
		}
		var r record
		Expect(json.Unmarshal(line, &r)).To(Succeed())
		if r.User.Username == username {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b record) int { return a.Received.Compare(b.Received) })
	return all
}
