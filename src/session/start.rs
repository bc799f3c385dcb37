//! How containers come to run: the image that one is made from, and those that have a name.
//!
//! An image that this computer's user names may be a file, and its registry gets the login that is
//! kept here. One that a tag names is neither: whoever may tag in the account may have written it.

use anyhow::anyhow;

use super::request::{Named, Request};
use super::{build, container_failure, pull};
use crate::drive::tags::Settings;
use crate::failure::{Exit, Failure};
use crate::host::container::{Came, Container};
use crate::host::scripts::{ContainerOrder, Host, Image};
use crate::host::shares::Reached;
use crate::ids::ImageReference;
use crate::launch::image::{self, ImageSource, PostCreate};
use crate::report::Report;

/// The image that a container is to be made from, by who names it.
pub(super) enum Asked<'a> {
    /// The image of this computer: named by its user, by a flag or the configuration, or xdrive's
    /// own default.
    Here(&'a str),
    /// A tag of the drive's.
    Tag(ImageReference),
}

/// The image of a main container that is not made yet, where no flag names one: by the drive's `own`
/// settings, the configuration, or the default.
pub(super) fn first_image<'a>(
    request: &'a Request,
    own: &Settings,
    default: &'a str,
) -> Result<Asked<'a>, Failure> {
    let configured = request.options.new_image.as_deref();
    match own.image() {
        Ok(Some(own)) if configured != Some(own.as_str()) => Ok(Asked::Tag(own)),
        Ok(_) => Ok(Asked::Here(configured.unwrap_or(default))),
        Err(error) => {
            let drive = &request.drive;
            let error = anyhow!("{drive} has no container yet, and {error}");
            Err(Failure::new(Exit::Config, error).hint("--image names it"))
        }
    }
}

/// Starts a container that has a name, on a host where the main one runs; makes it if there is an
/// image for that.
pub(super) async fn start_named(
    request: &Request,
    named: &Named,
    shares: Option<Vec<Reached>>,
    host: &Host,
    report: &Report,
) -> Result<Container, Failure> {
    let wanted = named.image.as_deref().map(Asked::Here);
    let containers = host
        .containers()
        .await
        .map_err(container_failure::from_script_error)?;
    let known = containers
        .into_iter()
        .find(|it| it.name.as_ref() == Some(&named.name));
    let known = known.map(|it| it.source);
    if wanted.is_none() && known.is_none() {
        return Err(no_named(request, named));
    }
    let image = image(host, wanted.as_ref(), known.as_deref(), request, report).await?;
    let order = ContainerOrder {
        drive: request.drive.clone(),
        named: Some(named.name.clone()),
        image,
        environment: Vec::new(),
        places: named.places.clone(),
        shares,
    };
    let step = report.step(format!("start the container {}", named.name));
    let container = host.container(&order).await;
    let container = container.map_err(container_failure::from_script_error)?;
    step.done(&describe_start(&container));
    let commands = described(&container, wanted.as_ref())?;
    build::finish(host, &container, &commands, report).await?;
    Ok(container)
}

/// The failure of a request for a container that is not there, and for which no image was given.
pub(super) fn no_named(request: &Request, named: &Named) -> Failure {
    let (drive, name) = (&request.drive, &named.name);
    let error = anyhow!("{drive} has no container {name} yet, and no image was given for it");
    Failure::new(Exit::Unavailable, error).hint("--image IMAGE makes it")
}

/// How a container came to run, as a line.
pub(super) fn describe_start(container: &Container) -> String {
    let name = container.named.as_ref();
    let name = name.map_or_else(String::new, |name| format!(" {name}"));
    match &container.came {
        Came::Running => format!("the container{name} runs"),
        Came::Started => format!("started the container{name}"),
        Came::Created => format!("created the container{name}"),
        Came::Replaced(former) => format!(
            "created the container{name}; the former one is an image, and --image {former} is it again"
        ),
        Came::Recreated(why) => {
            format!("recreated the container{name} from its own image: {why}")
        }
    }
}

/// The commands that the description of its image has for a container that was made just now.
pub(super) fn described(
    container: &Container,
    asked: Option<&Asked<'_>>,
) -> Result<Vec<PostCreate>, Failure> {
    match (&container.came, asked) {
        (Came::Created | Came::Replaced(_), Some(Asked::Here(image))) => {
            Ok(image::build(image)?.map_or_else(Vec::new, |it| it.commands))
        }
        _ => Ok(Vec::new()),
    }
}

/// The terminal that an earlier session left in a container with a name, if that ran on.
pub(super) async fn left_in(host: &Host, container: &Container) -> Option<String> {
    let (Some(name), Came::Running) = (&container.named, &container.came) else {
        return None;
    };
    // Without an answer there is a new shell, and the old one stays.
    let left = host.left_terminals().await.unwrap_or_default();
    let end = format!("..{name}");
    left.into_iter().find(|terminal| terminal.ends_with(&end))
}

/// Brings the `asked` image to the host, from this computer or from a registry, unless the container
/// was made from that, which is `known`.
pub(super) async fn image(
    host: &Host,
    asked: Option<&Asked<'_>>,
    known: Option<&str>,
    request: &Request,
    report: &Report,
) -> Result<Image, Failure> {
    let logins = request.options.logins.as_ref();
    let asked = match asked {
        None => return Ok(Image::Kept),
        Some(Asked::Tag(reference)) if known == Some(reference.as_str()) => {
            return Ok(Image::Kept);
        }
        Some(Asked::Tag(reference)) => return pull::pull_tagged(host, reference, report).await,
        Some(Asked::Here(asked)) => *asked,
    };
    let path = match ImageSource::parse(asked) {
        ImageSource::Reference(reference) if known == Some(&*reference) => {
            return Ok(Image::Kept);
        }
        ImageSource::Reference(reference) => {
            return pull::pull(host, &reference, logins, report).await;
        }
        ImageSource::Folder(path) => {
            return build::image(host, &image::described(&path)?, known, logins, report).await;
        }
        ImageSource::Archive(path) => path,
    };
    let source = image::source_of(&path)?;
    if known == Some(&*source) {
        return Ok(Image::Kept);
    }
    let step = report.step(format!("load the image {}", path.display()));
    let file = tokio::fs::File::open(&path)
        .await
        .map_err(|error| image::unreadable(&path, error))?;
    let loaded = host
        .load_image(&source, file)
        .await
        .map_err(container_failure::from_script_error)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    step.done(&format!("loaded the image {name}"));
    Ok(Image::Loaded(loaded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Options;
    use crate::ec2::Tags;

    fn choose(tag: Option<&str>, configured: Option<&str>) -> Result<String, Failure> {
        let options = Options {
            new_image: configured.map(str::to_owned),
            ..Options::default()
        };
        let request = Request::new("demo".parse().unwrap(), options);
        let tags: Tags = tag
            .map(|tag| ("xdrive:image".to_owned(), tag.to_owned()))
            .into_iter()
            .collect();
        let asked = first_image(&request, &Settings::read(&tags), "the-default")?;
        Ok(match asked {
            Asked::Here(image) => format!("here: {image}"),
            Asked::Tag(image) => format!("tag: {image}"),
        })
    }

    #[test]
    fn an_image_is_this_computers_only_if_it_was_named_here() {
        let own = |tag, configured| choose(tag, configured).unwrap();
        assert_eq!(own(None, None), "here: the-default");
        assert_eq!(own(None, Some("./mine.tar")), "here: ./mine.tar");
        assert_eq!(own(Some("ghcr.io/a/b:c"), None), "tag: ghcr.io/a/b:c");
        let both = own(Some("ghcr.io/a/b:c"), Some("ghcr.io/a/other"));
        assert_eq!(both, "tag: ghcr.io/a/b:c");
        let same = own(Some("ghcr.io/a/b:c"), Some("ghcr.io/a/b:c"));
        assert_eq!(same, "here: ghcr.io/a/b:c");
    }

    #[test]
    fn a_tag_that_stands_for_a_file_opens_none_and_says_what_helps() {
        for tag in [
            "/etc/passwd",
            "~/.aws/credentials",
            "./x.tar",
            "a/Dockerfile",
            "@file",
        ] {
            let failure = choose(Some(tag), Some("python")).unwrap_err();
            assert_eq!(failure.exit, Exit::Config, "{tag}");
            assert_eq!(failure.hint.as_deref(), Some("--image names it"));
        }
    }
}
