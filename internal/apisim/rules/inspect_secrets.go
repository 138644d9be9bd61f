package rules

import (
	"encoding/base64"
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// secretKeys maps the types of Secrets to the keys that they must have.
var secretKeys = map[corev1.SecretType][]string{
	corev1.SecretTypeTLS:              {corev1.TLSCertKey, corev1.TLSPrivateKeyKey},
	corev1.SecretTypeDockerConfigJson: {corev1.DockerConfigJsonKey},
	corev1.SecretTypeDockercfg:        {corev1.DockerConfigKey},
	corev1.SecretTypeSSHAuth:          {corev1.SSHAuthPrivateKey},
}

// typedSecret checks the data of a Secret against its type.
func typedSecret(obj object) field.ErrorList {
	var errs field.ErrorList
	kind, data, path := corev1.SecretType(Text(obj, "type")), Object(obj["data"]), field.NewPath("data")
	for _, key := range secretKeys[kind] {
		if _, ok := data[key]; !ok {
			errs = append(errs, field.Required(path.Key(key), ""))
		} else if kind == corev1.SecretTypeDockercfg || kind == corev1.SecretTypeDockerConfigJson {
			raw, err := base64.StdEncoding.DecodeString(Text(data, key))
			if err == nil && !json.Valid(raw) {
				errs = append(errs, field.Invalid(path.Key(key), "<secret contents redacted>", "must be JSON"))
			}
		}
	}
	user, password := corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey
	if kind == corev1.SecretTypeBasicAuth && data[user] == nil && data[password] == nil {
		errs = append(errs, field.Required(path.Key(user), ""), field.Required(path.Key(password), ""))
	}
	name := corev1.ServiceAccountNameKey
	if marks := Object(Meta(obj)["annotations"]); kind == corev1.SecretTypeServiceAccountToken && Empty(marks[name]) {
		errs = append(errs, field.Required(field.NewPath("metadata", "annotations").Key(name), ""))
	}
	return errs
}
