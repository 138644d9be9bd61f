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
	authenticationv1 "k8s.io/api/authentication/v1"
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

// record is an audit event of a write.
type record struct {
	Verb   string                    `json:"verb"`
	User   authenticationv1.UserInfo `json:"user"`
	Object struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

// writer is the token that the write was made with: each replica has its own.
func (r *record) writer() string { return token(&r.User) }

// token is the name of the token of a request.
func token(u *authenticationv1.UserInfo) string {
	id := u.Extra["authentication.kubernetes.io/credential-id"]
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
