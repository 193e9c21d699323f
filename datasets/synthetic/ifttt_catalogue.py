"""What apps and connected things can notice and do for each other: 53 services and 132 trigger-action pairs.

Services, triggers and actions are named as in the paper's table of IFTTT entities and pairs, extended in the same
manner with what these services were known for in 2016. A trigger is a kind of news, an action a thing to do with it;
a rule makes sense where one service has the trigger, the other the action, and the two are listed as a pair.
"""

from __future__ import annotations

# What a service is used for; a person drawn to one of these is drawn to its services.
INTERESTS: dict[str, tuple[str, ...]] = {
    "social": ("Facebook", "Twitter", "Instagram", "Tumblr", "Reddit", "Pinterest"),
    "publishing": ("Facebook Pages", "Linkedin", "Blogger", "WordPress", "Medium", "Buffer", "Feed"),
    "photos": ("Instagram", "Flickr", "500px", "iOS Photos", "Android Photos", "Dropbox"),
    "music and video": ("YouTube", "Vimeo", "SoundCloud", "Spotify"),
    "reading": ("Pocket", "Instapaper", "Feedly", "Feed", "The New York Times", "Reddit", "Medium"),
    "office": (
        "Gmail",
        "Google Calendar",
        "Google Drive",
        "OneDrive",
        "Evernote",
        "OneNote",
        "Todoist",
        "Trello",
        "Slack",
        "iOS Reminders",
    ),
    "home": ("Philips Hue", "Nest Thermostat", "SmartThings", "Wemo Switch", "Amazon Alexa", "Weather"),
    "phone": (
        "Android Device",
        "Android Location",
        "Android SMS",
        "iOS Location",
        "Sms",
        "Email",
        "Notifications",
        "Pushbullet",
        "Date & Time",
        "Weather",
    ),
    "fitness": ("Fitbit", "Up by Jawbone"),
}

# Services that nearly everybody had an account with.
WIDESPREAD = (
    "Facebook",
    "Twitter",
    "Instagram",
    "YouTube",
    "Gmail",
    "Email",
    "Dropbox",
    "Google Drive",
    "Evernote",
    "Notifications",
    "Weather",
    "Feed",
    "Pocket",
)

# People carry one kind of phone; services that need the other are rarely of use to them.
PHONES: dict[str, tuple[str, ...]] = {
    "Android": ("Android Device", "Android Location", "Android Photos", "Android SMS"),
    "iOS": ("iOS Location", "iOS Photos", "iOS Reminders"),
}

_BLOGS = ("Blogger", "WordPress", "Tumblr", "Medium")
_WALLS = ("Facebook", "Facebook Pages", "Linkedin")
_NETWORKS = ("Twitter", "Instagram", "Reddit", "Pinterest")
_PICTURES = ("Flickr", "500px")
_CAMERAS = ("iOS Photos", "Android Photos")
_VIDEOS = ("YouTube", "Vimeo")
_READERS = ("Pocket", "Instapaper", "Feedly")
_NOTEBOOKS = ("Evernote", "OneNote")
_DISKS = ("Dropbox", "Google Drive", "OneDrive")
_SWITCHES = ("Philips Hue", "SmartThings", "Wemo Switch")
_TRACKERS = ("Fitbit", "Up by Jawbone")
_PLACES = ("Android Location", "iOS Location")
_TASKS = ("Todoist", "Trello", "iOS Reminders")

# Which services notice what.
TRIGGERS: dict[str, tuple[str, ...]] = {
    "New Post": (*_BLOGS, *_WALLS, *_NETWORKS, "Feed", "Buffer"),
    "New Post from Search": (*_NETWORKS, *_PICTURES, *_VIDEOS, "Tumblr", "Feed", "The New York Times", "SoundCloud"),
    "New Article": ("Feed", "Feedly", "The New York Times", "Reddit", *_BLOGS),
    "New Like": (
        *_NETWORKS,
        *_PICTURES,
        "Tumblr",
        "Facebook",
        "Medium",
        "SoundCloud",
        "Pocket",
        "Instapaper",
        "Feedly",
    ),
    "New Liked Video": (*_VIDEOS, "Instagram", "Facebook", "Tumblr"),
    "New Video": (*_VIDEOS, *_DISKS, "Instagram", "Facebook", "Facebook Pages", "Tumblr"),
    "New Photo": (*_PICTURES, *_CAMERAS, *_DISKS, "Instagram", "Pinterest", "Facebook", "Facebook Pages", "Tumblr"),
    "New Screenshot": _CAMERAS,
    "New Follower": (*_NETWORKS, *_BLOGS, "Facebook Pages", "SoundCloud"),
    "You Are Mentioned": (*_NETWORKS, *_WALLS, "Slack", "Trello"),
    "New Saved Item": (*_VIDEOS, *_READERS, "Reddit", "Pinterest", "Evernote", "Spotify", "SoundCloud"),
    "New Track": ("Spotify", "SoundCloud", "Amazon Alexa"),
    "New Email": ("Gmail", "Email"),
    "New File": (*_DISKS, "Gmail", "Slack"),
    "New Note": _NOTEBOOKS,
    "New Task": (*_TASKS, "Amazon Alexa"),
    "Task Completed": (*_TASKS, "Amazon Alexa"),
    "Event Starts": ("Google Calendar",),
    "You Enter an Area": _PLACES,
    "You Exit an Area": _PLACES,
    "New Sms": ("Android SMS", "Sms"),
    "Battery Low": ("Android Device", "SmartThings", "Fitbit"),
    "Connects to Wifi": ("Android Device",),
    "Every Day at": ("Date & Time",),
    "Sunset": ("Weather",),
    "Weather Report": ("Weather",),
    "Temperature Drops Below": ("Weather", "Nest Thermostat"),
    "Nobody Is Home": ("Nest Thermostat", "SmartThings"),
    "Motion Detected": ("SmartThings", "Wemo Switch"),
    "Say a Phrase": ("Amazon Alexa",),
    "Goal Achieved": _TRACKERS,
    "New Workout": _TRACKERS,
}

# Which services can do what, by what people want of it.
ACTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "share": {
        "Share a Link": (*_WALLS, "Twitter", "Reddit", "Pinterest", "Buffer", "Tumblr", "WordPress", "Slack"),
        "Create a Post": (*_BLOGS, *_WALLS, "Reddit", "Buffer"),
        "Post a Tweet": ("Twitter", "Buffer"),
        "Upload a Photo": (
            *_PICTURES,
            "Facebook",
            "Facebook Pages",
            "Twitter",
            "Pinterest",
            "Tumblr",
            "WordPress",
            "Blogger",
        ),
    },
    "archive": {
        "Add File from Url": (*_DISKS, *_NOTEBOOKS, "Trello"),
        "Add Row to Spreadsheet": ("Google Drive", "OneDrive"),
        "Append to a Note": (*_NOTEBOOKS, *_DISKS, "Trello"),
        "Save for Later": (*_READERS, *_NOTEBOOKS, "Pinterest", "Todoist"),
    },
    "plan": {
        "Create a Task": (*_TASKS, "Evernote", "Google Calendar"),
        "Add Event to Calendar": ("Google Calendar",),
    },
    "tell me": {
        "Send Me an Email": ("Email", "Gmail"),
        "Send a Notification": ("Notifications", "Pushbullet", "Slack", "Android Device"),
        "Send an Sms": ("Sms", "Android SMS"),
        "Post a Message": ("Slack", "Pushbullet", "Facebook", "Twitter"),
    },
    "control": {
        "Set Temperature": ("Nest Thermostat",),
        "Turn On": _SWITCHES,
        "Turn Off": _SWITCHES,
        "Change Color": ("Philips Hue",),
        "Mute Ringtone": ("Android Device",),
        "Update Wallpaper": ("Android Device",),
    },
}

_SPREAD = ("Share a Link", "Create a Post", "Post a Tweet")
_KEEP = ("Append to a Note", "Add Row to Spreadsheet", "Save for Later")

# Which actions make sense on which news.
PAIRS: dict[str, tuple[str, ...]] = {
    "New Post": (*_SPREAD, *_KEEP, "Send Me an Email", "Send a Notification", "Post a Message"),
    "New Post from Search": (*_SPREAD, *_KEEP, "Send Me an Email", "Send a Notification", "Post a Message"),
    "New Article": (
        *_SPREAD,
        "Append to a Note",
        "Save for Later",
        "Send Me an Email",
        "Send a Notification",
        "Post a Message",
    ),
    "New Like": (*_SPREAD, *_KEEP, "Add File from Url", "Send Me an Email"),
    "New Liked Video": (*_SPREAD, *_KEEP, "Send Me an Email"),
    "New Video": (*_SPREAD, "Add File from Url", "Save for Later", "Send Me an Email"),
    "New Photo": (
        "Upload a Photo",
        "Create a Post",
        "Post a Tweet",
        "Add File from Url",
        "Append to a Note",
        "Send Me an Email",
        "Update Wallpaper",
    ),
    "New Screenshot": ("Add File from Url", "Send Me an Email", "Post a Message"),
    "New Follower": ("Post a Tweet", "Add Row to Spreadsheet", "Send Me an Email", "Send a Notification"),
    "You Are Mentioned": ("Append to a Note", "Add Row to Spreadsheet", "Send Me an Email", "Send a Notification"),
    "New Saved Item": (*_SPREAD, *_KEEP, "Create a Task", "Send Me an Email", "Post a Message"),
    "New Track": (*_SPREAD, "Append to a Note", "Add Row to Spreadsheet"),
    "New Email": ("Create a Task", "Append to a Note", "Add File from Url", "Send a Notification", "Send an Sms"),
    "New File": ("Send Me an Email", "Send a Notification", "Post a Message"),
    "New Note": ("Create a Task", "Create a Post", "Send Me an Email", "Add Event to Calendar"),
    "New Task": ("Add Event to Calendar", "Add Row to Spreadsheet", "Create a Task"),
    "Task Completed": ("Add Row to Spreadsheet", "Append to a Note", "Post a Message"),
    "Event Starts": ("Send a Notification", "Send an Sms", "Mute Ringtone"),
    "You Enter an Area": ("Turn On", "Set Temperature", "Send an Sms", "Add Row to Spreadsheet"),
    "You Exit an Area": ("Turn Off", "Set Temperature", "Send an Sms"),
    "New Sms": ("Append to a Note", "Add Row to Spreadsheet"),
    "Battery Low": ("Send an Sms", "Send a Notification"),
    "Connects to Wifi": ("Turn On",),
    "Every Day at": ("Send Me an Email", "Send a Notification", "Turn On"),
    "Sunset": ("Turn On", "Change Color"),
    "Weather Report": ("Send Me an Email", "Send a Notification"),
    "Temperature Drops Below": ("Set Temperature", "Send a Notification"),
    "Nobody Is Home": ("Turn Off", "Set Temperature"),
    "Motion Detected": ("Turn On", "Send a Notification"),
    "Say a Phrase": ("Turn On", "Turn Off", "Create a Task"),
    "Goal Achieved": ("Post a Tweet", "Send a Notification"),
    "New Workout": ("Add Row to Spreadsheet", "Add Event to Calendar"),
}
